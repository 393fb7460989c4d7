"""Messages between peers: published in steps, counted at each receiver."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from interop.harness.peer import Peer

KIB = 1024
SIZES = [0, 1, KIB, 64 * KIB, 900 * KIB]
"""Bytes."""


def sizes(count: int) -> list[int]:
    """`count` sizes: each of SIZES, the large ones seldom."""
    large = [900 * KIB] * max(1, count // 50) + [64 * KIB] * max(1, count // 10)
    small = [SIZES[index % 3] for index in range(count - len(large))]
    step = max(1, len(small) // len(large))
    mixed: list[int] = []
    for index, size in enumerate(small):
        mixed.append(size)
        if index % step == step - 1 and large:
            mixed.append(large.pop(0))
    return mixed + large


def payload_hash(size: int, seed: str) -> str:
    """The SHA-256 of the payload that peers make of a size and a seed."""
    digest = hashlib.sha256()
    for start in range(0, size, 32):
        block = hashlib.sha256(f"{seed}/{start // 32}".encode()).digest()
        digest.update(block[: size - start])
    return digest.hexdigest()


class Traffic:
    """What was published in a topic, and that each receiver got it once.

    A message is known by its author, its size and its hash. Empty ones of an author are equal,
    so they are counted, and distinguished by their ids.
    """

    def __init__(self, topic: str, window: int = 12) -> None:
        self.topic = topic
        self.expected: dict[Peer, Counter[tuple[str, str]]] = {}
        self.allowed: dict[Peer, Counter[tuple[str, str]]] = {}
        self._window = window
        self._published = 0
        self._received: dict[Peer, tuple[int, Counter[tuple[str, str]]]] = {}
        """How many deliveries of a peer were looked at, and what they were."""

    async def publish(
        self,
        author: Peer,
        receivers: Iterable[Peer],
        message_sizes: Sequence[int],
        *,
        perhaps: Iterable[Peer] = (),
    ) -> None:
        """Publish; at most `window` messages (2 large ones) are on their way at a time.

        Peers in `perhaps` may get the messages and need not.
        """
        receivers = [peer for peer in receivers if peer is not author]
        pending = 0
        for size in message_sizes:
            seed = f"{author.id}/{self.topic}/{self._published}"
            self._published += 1
            await author.send("publish", topic=self.topic, size=size, seed=seed)
            message = (author.id, payload_hash(size, seed))
            for peer in receivers:
                self.expected.setdefault(peer, Counter())[message] += 1
            for peer in perhaps:
                self.allowed.setdefault(peer, Counter())[message] += 1
            pending += 1
            if pending >= (2 if size > 64 * KIB else self._window):
                await self.delivered(receivers)
                pending = 0
        await self.delivered(receivers)

    async def delivered(self, receivers: Iterable[Peer]) -> None:
        """Wait until all that was published so far has come."""
        for peer in receivers:
            want = self.expected.get(peer, Counter())
            await peer.until(
                lambda peer=peer, want=want: (  # type: ignore[misc]
                    peer.count("delivery") >= want.total() and self.received(peer) >= want
                ),
                f"{want.total()} deliveries in {self.topic}",
            )

    def received(self, peer: Peer) -> Counter[tuple[str, str]]:
        """(author, hash) of what the peer's application got."""
        seen, found = self._received.get(peer, (0, Counter()))
        count = peer.count("delivery")
        found.update(
            (event["from"], event["sha256"])
            for event in peer.reported_since(seen, "delivery", topic=self.topic)
        )
        self._received[peer] = count, found
        return found

    def check(self) -> None:
        """Nobody got anything twice, or anything that wasn't published."""
        for peer, want in self.expected.items():
            got = self.received(peer)
            surplus = got - want - self.allowed.get(peer, Counter())
            assert not surplus, f"{peer} got too often: {surplus}"
            assert got >= want, f"{peer} lacks {want - got}"
            ids = Counter(event["id"] for event in peer.reported("delivery", topic=self.topic))
            assert all(count == 1 for count in ids.values())


async def exchange(
    topic: str, authors: Iterable[Peer], message_sizes: Sequence[int], *others: Peer
) -> None:
    """Each author publishes in turn; all of them, and the `others`, get each message once."""
    traffic, authors = Traffic(topic), [*authors]
    for author in authors:
        await traffic.publish(author, [*authors, *others], message_sizes)
    traffic.check()
