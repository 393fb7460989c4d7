"""gossipsub v1.2 with the two parts of the v1.4 drafts for large messages.

PREAMBLE and IMRECEIVING: libp2p/specs PR 654, as built in nim-libp2p's
`extension_preamble.nim`. Fragments that are passed on before the message is whole: arXiv 2504.10365
and libp2p/specs PR 720. Copies go out one after the other (staggering, in the same paper), so that
what a peer says meanwhile saves those that wait; a publisher doesn't flood what is large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Any, TypeAlias

from episub_router.sim.routers.gossipsub import IDONTWANT, IHAVE, IWANT, PUBLISH, GossipsubNode
from episub_router.sim.sizes import gossipsub_ids

FRAGMENT, PREAMBLE, IMRECEIVING = "fragment", "preamble", "imreceiving"

Part: TypeAlias = tuple[int, int]
"""A message and one of its fragments; 0 where it goes whole."""

_LENGTH = 5
"""Bytes of the message's length in PREAMBLE and IMRECEIVING."""
_RATE = 2.5e6
"""Bytes a second that a peer is believed to send until it has; nim-libp2p, bandwidth.nim."""
_RATE_GAIN = 0.3
"""Likewise: the weight of a new sample."""
_FORGOTTEN_AFTER = 120.0
"""Seconds after which nothing is noted of a message. Chosen: gossipsub's usual seen time."""
_MARGIN = 0.25, 1.05
"""Seconds, and share of the time that a message should take; nim-libp2p, bandwidth.nim."""


class LargeGossipsubNode(GossipsubNode):
    """A `GossipsubNode` that sends messages of `large` bytes or more in one of the two ways."""

    __slots__ = (
        "_asks", "_began", "_fragments", "_is_pumping", "_queue", "_rates", "_receiving",
        "_refused",
    )  # fmt: skip

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._queue: deque[tuple[int, Part, int]] = deque()
        """Peers, what waits for them, and the hops that it took."""
        self._is_pumping = False
        self._fragments: dict[int, int] = {}
        """Messages under way, and a mask of their fragments that are here."""
        self._refused: dict[int, dict[Part, None]] = {}
        """What each peer doesn't want, or is receiving from another one."""
        self._receiving: dict[int, float] = {}
        """Messages that are being received, and until when that is believed."""
        self._asks: dict[int, dict[int, None]] = {}
        """Peers that have these messages, should they not come."""
        self._began: dict[tuple[int, int], float] = {}
        """When a peer's PREAMBLE came for a message."""
        self._rates: dict[int, float] = {}

    def messages_in(self, parcel: Any) -> Iterable[int]:
        _, kind, body = parcel
        return (body[0],) if kind == FRAGMENT else super().messages_in(parcel)

    def _messages_of(self, kind: str, body: Any) -> tuple[int, ...] | None:
        if kind == IDONTWANT:
            return tuple(message for message, _ in body)
        return (body,) if kind in (PREAMBLE, IMRECEIVING) else super()._messages_of(kind, body)

    # Receiving.

    def receive(self, parcel: tuple[int, str, Any]) -> None:
        sender, kind, body = parcel
        if sender not in self.links:
            return
        if kind == FRAGMENT:
            self._on_fragment(sender, *body)
        elif kind == PREAMBLE:
            self._on_preamble(sender, body)
        elif kind == IMRECEIVING:
            self._refused.setdefault(sender, {})[body, 0] = None
        elif kind == IDONTWANT:
            self._refused.setdefault(sender, {}).update(dict.fromkeys(body))
            for message, _ in body:
                if message in self._receiving:
                    self._asks.setdefault(message, {})[sender] = None
        elif kind == IHAVE:
            self._on_ihave(sender, body)
        else:
            if kind == PUBLISH:
                self._note_whole(sender, body[0])
            super().receive(parcel)

    def _on_fragment(self, sender: int, message: int, index: int, hops: int) -> None:
        """One fragment: it goes on at once, and the message is delivered with the last."""
        have = self._fragments.get(message, 0)
        if message in self._held or have >> index & 1:
            return
        self._fragments[message] = have = have | 1 << index
        self._receiving[message] = self._until(message, _RATE)
        self._send_to_mesh(sender, IDONTWANT, ((message, index),), gossipsub_ids(1))
        self._enqueue([peer for peer in self.mesh if peer != sender], (message, index), hops + 1)
        if have == (1 << self._count(message)) - 1:
            del self._fragments[message], self._receiving[message]
            self._hold(message, hops, sender)

    def _on_preamble(self, sender: int, message: int) -> None:
        """PR 654, Receiving a PREAMBLE: mesh peers are to hold their copies back, where the sender
        isn't slower than most."""
        now = self.loop.now
        if message in self._held or self._receiving.get(message, 0.0) > now:
            return
        self._began[sender, message] = now
        rate = self._rates.get(sender, _RATE)
        self._receiving[message] = self._until(message, rate)
        if sender in self.mesh and rate >= median(self._rates.get(p, _RATE) for p in self.mesh):
            self._send_to_mesh(sender, IMRECEIVING, message, gossipsub_ids(1) + _LENGTH)

    def _until(self, message: int, rate: float) -> float:
        """When `message` should be here."""
        least, share = _MARGIN
        return self.loop.now + least + share * self.records.messages[message].size / rate

    def _note_whole(self, sender: int, message: int) -> None:
        """Measure how fast `sender` was."""
        self._receiving.pop(message, None)
        began = self._began.pop((sender, message), None)
        if began is not None and began < self.loop.now:
            rate = self.records.messages[message].size / (self.loop.now - began)
            before = self._rates.get(sender, _RATE)
            self._rates[sender] = before + _RATE_GAIN * (rate - before)

    def _on_ihave(self, sender: int, ids: tuple[int, ...]) -> None:
        """PR 654: no IWANT for what is being received, in fragments or whole."""
        wanted = []
        for message in ids:
            if message in self._held:
                continue
            if self._receiving.get(message, 0.0) > self.loop.now:
                self._asks.setdefault(message, {})[sender] = None
            else:
                wanted.append(message)
        if wanted:
            self._send(sender, IWANT, tuple(wanted), gossipsub_ids(len(wanted)))

    # Sending.

    def _is_large(self, message: int) -> bool:
        return self.records.messages[message].size >= self._params.large

    def _count(self, message: int) -> int:
        """The fragments of `message`."""
        size, whole = self._params.fragment_size, self.records.messages[message].size
        return -(-whole // size) if size and whole >= self._params.large else 1

    def _accept(self, message: int, hops: int, sender: int) -> None:
        if not self._is_large(message):
            super()._accept(message, hops, sender)
            return
        self._fragments.pop(message, None)
        self._hold(message, hops, sender)
        if sender != -1:
            self._send_to_mesh(sender, IDONTWANT, ((message, 0),), gossipsub_ids(1))
        peers = [peer for peer in self.mesh if peer != sender]
        for index in range(self._count(message)):
            self._enqueue(peers, (message, index), hops + 1)

    def _push(self, peers: list[int], message: int, hops: int) -> None:
        """An answer to IWANT."""
        if not self._is_large(message):
            super()._push(peers, message, hops)
            return
        if not self._params.fragment_size:
            for peer in peers:
                self._refused.get(peer, {}).pop((message, 0), None)
        for index in range(self._count(message)):
            self._enqueue(peers, (message, index), hops)

    def _enqueue(self, peers: list[int], part: Part, hops: int) -> None:
        self._queue.extend((peer, part, hops) for peer in peers)
        if not self._is_pumping:
            self._is_pumping = True
            self._pump(None)

    def _pump(self, _: object) -> None:
        """Send what waits, one at a time, while it is still wanted."""
        while self._queue:
            free_at = self.network.uplink_free_at(self.id)
            if free_at > self.loop.now:
                self.loop.at(free_at, self._pump, None)
                return
            peer, part, hops = self._queue.popleft()
            if peer in self.links and part not in self._refused.get(peer, ()):
                self._send_part(peer, part, hops)
        self._is_pumping = False

    def _send_part(self, peer: int, part: Part, hops: int) -> None:
        message, index = part
        record, fragment = self.records.messages[message], self._params.fragment_size
        if self._params.preamble:
            self._send(peer, PREAMBLE, message, gossipsub_ids(1) + _LENGTH)
        payload = min(fragment, record.size - index * fragment) if fragment else record.size
        record.payloads += payload / record.size
        if fragment:
            self._send_payload([peer], FRAGMENT, (message, index, hops), payload)
        else:
            self._send_payload([peer], PUBLISH, (message, hops), payload)

    # Heartbeat.

    def timer(self) -> None:
        now = self.loop.now
        late = [message for message, until in self._receiving.items() if until <= now]
        for message in late:
            # nim-libp2p: one of those that have it is asked.
            del self._receiving[message]
            having = [peer for peer in self._asks.pop(message, {}) if peer in self.links]
            if having and message not in self._held:
                self._send(self.rng.choice(having), IWANT, (message,), gossipsub_ids(1))
        super().timer()

    def _shift(self) -> None:
        super()._shift()
        oldest, messages = self.loop.now - _FORGOTTEN_AFTER, self.records.messages
        for table in (self._fragments, self._asks, self._receiving):
            for message in [m for m in table if messages[m].published < oldest]:
                del table[message]
        for parts in self._refused.values():
            for part in [part for part in parts if messages[part[0]].published < oldest]:
                del parts[part]
        for key in [key for key in self._began if messages[key[1]].published < oldest]:
            del self._began[key]

    def disconnected(self, peer: int) -> None:
        self._refused.pop(peer, None)
        self._rates.pop(peer, None)
        super().disconnected(peer)
