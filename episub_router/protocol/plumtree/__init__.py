"""Plumtree as Episub reworks it (E30-E41): epidemic broadcast trees over a topic's overlay.

Eager push peers get each payload at once and form a spanning tree; lazy push peers get ids
(IHAVE). A duplicate removes its link from the tree (PRUNE), a missing message adds one (GRAFT).
Beside the shared tree each source has one of its own, which ROOT builds.
"""

from episub_router.protocol.plumtree.machine import Plumtree

__all__ = ["Plumtree"]
