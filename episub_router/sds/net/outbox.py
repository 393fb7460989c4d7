"""What is to be published, in order, at the pace at which peers take it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.publishing import PublishGate
from episub_router.sds.net.intake import proof_of, sign
from episub_router.sds.protocol.effects import Purpose
from episub_router.sds.protocol.message import MessageId
from episub_router.util.kept import one_for_each

_LIMIT = 1024
"""Messages that may wait to be published; further ones are dropped, and resent later."""

_QUEUED = 16
"""Messages in a peer's queue beyond which the next one waits: half of py-libp2p's (chosen)."""
_LOOK_AGAIN = 0.005
"""Seconds between two looks at a peer without room; longer where the event loop is busy."""
_PATIENCE = 200
"""Looks for which such peers are waited for, at most: a second (chosen)."""
_REGAINED = 4
"""Looks that come back with each message: so slow peers delay messages by 20 ms on average, and
those that stand still not at all (chosen)."""
_NEAR = 0.9
"""Share of a rate limit from which on ephemeral messages are dropped (LIP-173)."""


class Turns:
    """Lets all channels of a pubsub publish one after another, while its peers have room.

    py-libp2p's own routers drop what goes beyond a peer's queue of 32 messages, so that of what a
    thousand channels say at once nearly all would be lost, and said again. A router with
    backpressure of its own is left to it.
    """

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self._looks = _PATIENCE
        self._still: set[ID] = set()
        """Peers that were waited for in vain, and had no room since."""

    async def room(self, pubsub: Pubsub, topic: str) -> None:
        """Wait until the peers of a topic take another message."""
        if isinstance(pubsub.router, PublishGate):
            return
        self._looks = min(_PATIENCE, self._looks + _REGAINED)
        self._still = _without_room(pubsub, self._still)
        full = _without_room(pubsub, pubsub.peer_topics.get(topic, ())) - self._still
        while full and self._looks:
            await trio.sleep(_LOOK_AGAIN)
            self._looks -= 1
            full = _without_room(pubsub, full)
        self._still |= full


def _without_room(pubsub: Pubsub, peers: Iterable[ID]) -> set[ID]:
    queues = {peer: pubsub.peer_queues.get(peer) for peer in peers}
    return {p for p, q in queues.items() if q is not None and not q.closed and len(q) >= _QUEUED}


_turns: Callable[[Pubsub], Turns] = one_for_each(lambda pubsub: Turns())


class RateLimit(NamedTuple):
    """At most so many `messages` in any window of so many `seconds`, as a network with rate-limit
    proofs demands. What is beyond it waits; ephemeral messages are dropped near it."""

    messages: int
    seconds: float


class PublishQueue:
    """`published` is called for each message that the router has taken."""

    def __init__(
        self,
        pubsub: Pubsub,
        topic: str,
        counts: Counter[str],
        published: Callable[[MessageId], None],
        rate: RateLimit | None = None,
    ) -> None:
        if rate is not None and (rate.messages < 1 or not rate.seconds > 0):
            raise ValueError(f"a rate limit is of at least one message in some seconds: {rate}")
        self._pubsub = pubsub
        self._topic = topic
        self._counts = counts
        self._published = published
        self._rate = rate
        self._times: deque[float] = deque(maxlen=rate.messages if rate else 0)
        """When the last ones were published that count."""
        self._queue: deque[tuple[MessageId, bytes, Purpose]] = deque()
        self._waiting: set[MessageId] = set()
        """The ids in it."""
        self._posted = trio.Event()
        self._empty = trio.Event()
        self._empty.set()
        self._signed: dict[bytes, rpc_pb2.Message] = {}
        self._turns = _turns(pubsub)

    def prove(self, raw: bytes) -> bytes:
        """Sign a message of ours before anybody sees it; the proof to keep with it."""
        message = self._signed[raw] = sign(self._pubsub, self._topic, raw)
        return proof_of(message)

    def post(self, message_id: MessageId, raw: bytes, purpose: Purpose) -> bool:
        """Queue a message. False where there is no room, or the same waits there already."""
        if message_id in self._waiting:
            self._counts["outbox-waits"] += 1
            return False
        if purpose is Purpose.EPHEMERAL and self._near_limit():
            self._counts["ephemeral-dropped"] += 1
            return False
        if len(self._queue) >= _LIMIT:
            self._signed.pop(raw, None)
            self._counts["outbox-full"] += 1  # resending repairs it
            return False
        self._queue.append((message_id, raw, purpose))
        self._waiting.add(message_id)
        self._posted.set()
        if self._empty.is_set():  # else somebody may wait for it
            self._empty = trio.Event()
        return True

    def forget(self) -> None:
        """What was signed and not posted won't be."""
        queued = {raw for _, raw, _ in self._queue}
        self._signed = {raw: m for raw, m in self._signed.items() if raw in queued}

    async def flush(self) -> None:
        """Wait until all is published."""
        await self._empty.wait()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._posted.wait()
            self._posted = trio.Event()
            while self._queue:
                if self._rate is not None:
                    await self._within(self._rate)
                async with self._turns.lock:
                    await self._turns.room(self._pubsub, self._topic)
                await self._publish(*self._queue[0])
                self._waiting.discard(self._queue.popleft()[0])
            self._empty.set()

    def _near_limit(self) -> bool:
        """Whether less than a tenth of what may be published is left, or something waits."""
        if self._rate is None:
            return False
        begin = trio.current_time() - self._rate.seconds
        recent = len(self._queue) + sum(at > begin for at in self._times)
        return recent >= _NEAR * self._rate.messages

    async def _within(self, rate: RateLimit) -> None:
        if len(self._times) == rate.messages:
            await trio.sleep_until(self._times[0] + rate.seconds)
        self._times.append(trio.current_time())

    async def _publish(self, message_id: MessageId, raw: bytes, purpose: Purpose) -> None:
        self._counts[f"published-{purpose.value}"] += 1
        signed = self._signed.pop(raw, None)
        try:
            if signed is not None:
                await self._pubsub.push_msg(self._pubsub.my_id, signed)
            else:
                await self._pubsub.publish(self._topic, raw)
        except Exception:  # whatever the router raises: resending repairs it
            self._counts["publish-failed"] += 1
        else:
            self._published(message_id)
