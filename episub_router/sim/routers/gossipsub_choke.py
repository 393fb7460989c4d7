"""gossipsub v1.1 with CHOKE and UNCHOKE, the other proposal that is called Episub.

libp2p/specs PR 413 (2022) decides every `choke_interval` heartbeats from statistics; PR 681 (2025)
continues it and decides with each message. A choked mesh peer announces instead of pushing: at
its heartbeat in PR 413, at once in PR 681. Sections are those of the two texts.
"""

from __future__ import annotations

from typing import Any

from episub_router.sim.routers.gossipsub import IHAVE, IWANT, PUBLISH, GossipsubNode
from episub_router.sim.sizes import gossipsub_ids, gossipsub_link

CHOKE, UNCHOKE = "choke", "unchoke"

_SAMPLES = 3
"""Copies of a peer that make a statistic. simsub's episub experiments: choke-min-samples 3."""
_FASTER_SHARE = 0.5
"""PR 413, IHAVE Message Percentage: of the messages, announced before they came. Chosen: half."""
_ASK_AGAIN = 1.0
"""Seconds until a message is asked of another peer, too. PR 681, Limiting Concurrent IWANTs, leaves
the number open; chosen: one request at a time, for a heartbeat."""


class _Arrival:
    """When one message came, and from which peers."""

    __slots__ = ("announced", "at", "copies", "first")

    def __init__(self, at: float, first: int) -> None:
        self.at = at
        self.first = first
        self.copies: dict[int, float] = {first: at}
        """Mesh peers in the order of their copies."""
        self.announced: list[int] = []
        """Choked peers that announced it before it came."""


class ChokingGossipsubNode(GossipsubNode):
    """A `GossipsubNode` that chokes mesh peers whose copies are late."""

    __slots__ = ("_arrivals", "_asked", "_early", "_ticks", "choked", "choked_by")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.choked: dict[int, None] = {}
        """Mesh peers that are to announce to us."""
        self.choked_by: dict[int, None] = {}
        """Mesh peers that we are to announce to."""
        self._arrivals: dict[int, _Arrival] = {}
        """Messages since the last decision."""
        self._early: dict[int, list[int]] = {}
        """Choked peers that announced a message that hasn't come yet."""
        self._asked: dict[int, float] = {}
        """When a message was last asked for."""
        self._ticks = 0

    @property
    def _by_heartbeat(self) -> bool:
        """Whether this is PR 413's."""
        return self._params.choke_interval > 0

    # Messages.

    def receive(self, parcel: tuple[int, str, Any]) -> None:
        sender, kind, body = parcel
        if sender not in self.links:
            return
        if kind == CHOKE:
            if sender in self.mesh:
                self.choked_by[sender] = None
        elif kind == UNCHOKE:
            self.choked_by.pop(sender, None)
        elif kind == IHAVE:
            self._on_ihave(sender, body)
        else:
            if kind == PUBLISH:
                self._note_copy(sender, body[0])
            super().receive(parcel)

    def _note_copy(self, sender: int, message: int) -> None:
        """A copy comes from `sender`, the first one if nothing is known of the message."""
        now = self.loop.now
        self._asked.pop(message, None)
        arrival = self._arrivals.get(message)
        if arrival is None:
            if message not in self._held:
                self._arrivals[message] = arrival = _Arrival(now, sender)
                arrival.announced = self._early.pop(message, [])
            return
        arrival.copies.setdefault(sender, now)
        late = self._params.choke_after
        if late and now - arrival.at > late and sender in self.mesh:
            # PR 681, Choke on duplicate; at least one peer stays unchoked.
            self._choke(sender, 1)

    def _on_ihave(self, sender: int, ids: tuple[int, ...]) -> None:
        """v1.0, IHAVE; PR 681, Limiting Concurrent IWANTs."""
        now = self.loop.now
        unknown = [message for message in ids if message not in self._held]
        if sender in self.choked:
            for message in unknown:
                self._early.setdefault(message, []).append(sender)
        wanted = tuple(m for m in unknown if self._asked.get(m, -_ASK_AGAIN) + _ASK_AGAIN <= now)
        if wanted:
            self._asked.update(dict.fromkeys(wanted, now))
            self._send(sender, IWANT, wanted, gossipsub_ids(len(wanted)))

    def _forward(self, peers: list[int], message: int, hops: int) -> None:
        """PR 413, Publishing, and PR 681, Choked and Unchoked behavior: no pushes to peers that
        choke us, but for our own messages in PR 681."""
        if hops == 1 and not self._by_heartbeat:
            self._push(peers, message, hops)
            return
        self._push([peer for peer in peers if peer not in self.choked_by], message, hops)
        if not self._by_heartbeat:
            for peer in self.choked_by:
                if peer in peers:
                    self._send(peer, IHAVE, (message,), gossipsub_ids(1))

    # Choking.

    def _choke(self, peer: int, unchoked: int) -> bool:
        """CHOKE a mesh peer, if at least `unchoked` others are left."""
        if peer in self.choked or len(self.mesh) - len(self.choked) <= unchoked:
            return False
        self.choked[peer] = None
        self._send(peer, CHOKE, None, gossipsub_link())
        return True

    def _unchoke(self, peer: int) -> None:
        if self.choked.pop(peer, 0) is None:
            self._send(peer, UNCHOKE, None, gossipsub_link())

    def _gossip(self) -> None:
        super()._gossip()
        self._ticks += 1
        if not self._by_heartbeat:
            self._unchoke_faster()
        else:
            fresh = tuple(self._history[0])
            for peer in self.choked_by if fresh else ():
                self._send(peer, IHAVE, fresh, gossipsub_ids(len(fresh)))
            if self._ticks % self._params.choke_interval == 0:
                self._decide()
                self._arrivals.clear()
        if len(self.mesh) > 1 and len(self.choked) >= len(self.mesh):
            self._unchoke(next(iter(self.choked)))
        for message in [m for m, at in self._asked.items() if at + _ASK_AGAIN <= self.loop.now]:
            del self._asked[message]
        if self._ticks % self._params.history == 0:
            self._early.clear()

    def _unchoke_faster(self) -> None:
        """PR 681, Unchoke on faster messages: all choked peers whose copies came before those of
        any unchoked one, by `unchoke_after`."""
        now, lead = self.loop.now, self._params.unchoke_after
        for message, arrival in list(self._arrivals.items()):
            if now - arrival.at <= max(lead, self._params.choke_after):
                continue
            pushed = [at for peer, at in arrival.copies.items() if peer not in self.choked]
            before = min(pushed, default=now) - lead
            for peer, at in arrival.copies.items():
                if peer in self.choked and at <= before:
                    self._unchoke(peer)
            del self._arrivals[message]

    def _decide(self) -> None:
        """PR 413: choke those that are last on average, unchoke those that announce before a
        message comes."""
        orders: dict[int, list[int]] = {}
        early: dict[int, int] = {}
        for arrival in self._arrivals.values():
            for order, peer in enumerate(arrival.copies):
                orders.setdefault(peer, []).append(order)
            for peer in arrival.announced:
                early[peer] = early.get(peer, 0) + 1
        churn = self._params.choke_churn
        enough = _FASTER_SHARE * len(self._arrivals)
        for peer in [p for p in self.choked if early.get(p, 0) > enough][:churn]:
            self._unchoke(peer)
        means = {
            peer: sum(found) / len(found)
            for peer, found in orders.items()
            if peer in self.mesh and len(found) >= _SAMPLES
        }
        for peer in sorted(means, key=lambda peer: -means[peer]):
            if churn and self._choke(peer, self._params.d_non_choke):
                churn -= 1

    # A peer that leaves the mesh is unchoked, on both sides.

    def _forget(self, peer: int) -> None:
        self.choked.pop(peer, None)
        self.choked_by.pop(peer, None)

    def disconnected(self, peer: int) -> None:
        self._forget(peer)
        super().disconnected(peer)

    def _on_prune(self, sender: int, exchanged: tuple[int, ...]) -> None:
        self._forget(sender)
        super()._on_prune(sender, exchanged)

    def _prune(self, peer: int) -> None:
        self._forget(peer)
        super()._prune(peer)
