"""A node in the tree of the source "s": ROOTs as its neighbours bring them."""

from __future__ import annotations

from typing import Any

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DownReason, Effect, NeighborDown
from episub_router.protocol.messages import Gossip, Graft, Prune, Root, RootRequest, TreeRoot
from episub_router.protocol.plumtree.round_proofs import ROUNDS, own_proof
from tests.protocol.helpers import ME, Branch, ihave, sent

WINDOW = 0.01
"""Seconds after which the parent is chosen."""
SETTLE = 0.6
"""Seconds after which standbys are chosen and former parents left: 0.5 s, and the window."""
UNKNOWN = 0.05
"""Seconds that count for a link without an RTT."""
GRAFT_S = Graft(sources=("s",))
PRUNE_S = Prune(sources=("s",))
GRAFT_ME = Graft(sources=(ME,))


def root(round: int = 1, cost: float = 0.0, source: Any = "s") -> Root:
    return Root((TreeRoot(source, round % ROUNDS, cost, own_proof(b"", source, round)),))


def gossip(id: object, hops: int = 3, source: Any = "s", tree: Any = "s") -> Gossip:
    return Gossip(id, hops, "payload", 7, source, tree)


def pull(branch: Branch, peer: str, id: object, source: Any = "s") -> list[Effect]:
    """`peer` announces a message of `source`, is asked for it and sends it; what follows."""
    branch.receive(peer, ihave(id))
    assert (peer, Graft((id,))) in sent(branch.wait(0.7))  # As long as a learned wait may get.
    return branch.receive(peer, gossip(id, source=source, tree=source))


def publish(branch: Branch, id: object, source: object = ME) -> list[Effect]:
    return branch.handle(ev.Publish(id, "payload", 0, source))


def built(*peers: str, every: float = 0.03, **costs: float) -> Branch:
    """A node whose neighbours brought ROOT in this order, so that the first is its parent and the
    next two are standbys."""
    branch = Branch(*peers)
    bring(branch, *peers, round=1, every=every, **costs)
    branch.wait(SETTLE)
    return branch


def bring(
    branch: Branch, *peers: str, round: int = 1, every: float = 0.03, **costs: float
) -> list[Effect]:
    """`peers` bring ROOT, one each `every` seconds; what they offer costs 0 or `costs`."""
    effects = []
    for peer in peers:
        effects += branch.receive(peer, root(round, costs.get(peer, 0.0)))
        effects += branch.wait(every)
    return effects


def lose(branch: Branch, peer: str) -> list[Effect]:
    return branch.handle(NeighborDown(peer, DownReason.FAILED))


def ask(round: int, source: object = "s") -> Root:
    """A request for a round after `round`."""
    return Root(requests=(RootRequest(source, round),))
