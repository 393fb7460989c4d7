"""Plumtree as Episub reworks it (E30-E41): epidemic broadcast trees over a topic's overlay.

Eager push peers get each payload at once and form a spanning tree; lazy push peers get ids
(IHAVE). A duplicate removes its link from the tree (PRUNE), a missing message adds one (GRAFT).
Beside the shared tree each source has one of its own, which ROOT builds.
"""

from episub_router.protocol.plumtree.graft_wait import FIRST_LAG, LOST_AFTER, GraftWait
from episub_router.protocol.plumtree.lazy_push import ANNOUNCE_WINDOW, LAZY_DELAY, MAX_QUEUED
from episub_router.protocol.plumtree.machine import Plumtree
from episub_router.protocol.plumtree.message_cache import (
    MAX_HOLDERS,
    MAX_VALIDATING,
    VALIDATION_TIMEOUT,
    Copy,
    GossipMessage,
    MessageCache,
)  # fmt: skip
from episub_router.protocol.plumtree.missing_messages import (
    ANNOUNCEMENTS,
    MAX_MISSING,
    MAX_RETRANSMISSIONS,
)  # fmt: skip
from episub_router.protocol.plumtree.neighbor_record import (
    BROKEN_AT_ONCE,
    LONGEST_BACKLOG,
    MAX_PROMISES,
    SILENCE,
    NeighborRecord,
)  # fmt: skip
from episub_router.protocol.plumtree.root import ROOT_INTERVAL
from episub_router.protocol.plumtree.tree import (
    FAILED_AFTER,
    MAX_TREES,
    TREE_IDLE,
    Offer,
    Tree,
    Trees,
)  # fmt: skip

__all__ = [
    "ANNOUNCEMENTS", "ANNOUNCE_WINDOW", "BROKEN_AT_ONCE", "FAILED_AFTER", "FIRST_LAG",
    "LAZY_DELAY", "LONGEST_BACKLOG", "LOST_AFTER", "MAX_HOLDERS", "MAX_MISSING", "MAX_PROMISES",
    "MAX_QUEUED", "MAX_RETRANSMISSIONS", "MAX_TREES", "MAX_VALIDATING", "ROOT_INTERVAL", "SILENCE",
    "TREE_IDLE", "VALIDATION_TIMEOUT", "Copy", "GossipMessage", "GraftWait", "MessageCache",
    "NeighborRecord", "Offer", "Plumtree", "Tree", "Trees",
]  # fmt: skip
