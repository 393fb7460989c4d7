"""Topics whose messages have no author, as Ethereum's, or ids of their content, as Filecoin's."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.peer import Peer
from interop.harness.traffic import KIB, payload_hash

TOPIC = "policies"
SIZES = [32, KIB, 64 * KIB] * 8  # so that no two messages are equal
ETHEREUM = ("--policy=StrictNoSign", "--ids=ethereum")
FILECOIN = ("--policy=StrictSign", "--ids=data")


def cell(policy: str, kind: str, *flags: str) -> object:
    return pytest.param(kind, flags, marks=pytest.mark.peers(kind), id=f"{policy}-{kind}")


class Contents:
    """What each peer published; a message is its content."""

    def __init__(self, peers: list[Peer]) -> None:
        self.peers = peers
        self.by_author: dict[Peer, list[str]] = {peer: [] for peer in peers}

    async def publish(self, author: Peer) -> None:
        """Publish messages of all sizes, and wait until each other peer has them."""
        for number, size in enumerate(SIZES):
            seed = f"{author.id}/{number}"
            await author.send("publish", topic=TOPIC, size=size, seed=seed)
            self.by_author[author].append(payload_hash(size, seed))
            if number % 8 == 7:
                for peer in self.peers:
                    await peer.until(
                        lambda peer=peer: self.got(peer) >= self.expected(peer),  # type: ignore[misc]
                        f"all of {author}'s messages",
                    )

    def expected(self, peer: Peer) -> Counter[str]:
        return Counter(
            h for author, own in self.by_author.items() if author is not peer for h in own
        )

    def got(self, peer: Peer) -> Counter[str]:
        """Deliveries of others' messages; a peer may deliver its own, which name nobody."""
        deliveries = Counter(e["sha256"] for e in peer.reported("delivery", topic=TOPIC))
        return Counter({h: n for h, n in deliveries.items() if h not in self.by_author[peer]})


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        *(cell("ethereum", kind, *ETHEREUM) for kind in ("go", "js", "rust", "episub-go")),
        *(cell("filecoin", kind, *FILECOIN) for kind in ("go", "js", "rust", "py")),
    ],
)
async def test_messages_cross_a_bridge_under_a_policy(
    lab: Lab, kind: str, flags: tuple[str, ...]
) -> None:
    """stock - bridge - bridge - stock: each message crosses both protocols."""
    peers = [
        await lab.start(each, *flags, topics=[TOPIC]) for each in (kind, "episub", "episub", kind)
    ]
    for dialler, listener in pairwise(peers):
        await mesh_link(dialler, listener, TOPIC)
    contents = Contents(peers)
    for author in peers:
        await contents.publish(author)
    for peer in peers:
        assert contents.got(peer) == contents.expected(peer)


@pytest.mark.peers("go", "py")
async def test_a_stock_py_peer_reads_what_has_no_author(lab: Lab) -> None:
    """go - bridge - bridge - py, whose own messages name it, so that nobody takes them."""
    kinds = ("go", "episub", "episub", "py")
    go, near, far, py = peers = [await lab.start(each, *ETHEREUM, topics=[TOPIC]) for each in kinds]
    for dialler, listener in pairwise(peers):
        await mesh_link(dialler, listener, TOPIC)
    contents = Contents(peers)
    await py.send("publish", topic=TOPIC, size=32, seed="named")
    await py.event("published")
    for author in (go, near, far):
        await contents.publish(author)
    for peer in peers:
        assert contents.got(peer) == contents.expected(peer)
