"""Large messages of simulated hosts: pieces that have a size and no bytes."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import Piece, Preamble
from episub_router.protocol.pieces.cutting import HASH_BYTES, piece_size

PER_CHILD = 20.0
"""Megabit per second of an uplink for each child, where hosts' uplinks differ; slower hosts have
none but for their own messages. Measured, 300 nodes, 1 MB, uplinks of 10 to 1,000 Mbit/s: p50 / p99
583 / 696 ms; with 10, 945 / 1,033; with 25, 662 / 1,489."""

PER_THIRD_CHILD = 140.0
"""Likewise for each child where that makes more than two. Half of the mean uplink, roughly, so that
a host sends about twice its share at most: one with 200 among others with 1,000 had six children
and sent six times what it received. Measured as above, 250 nodes, seeds 1 and 2: 516 / 673 and 569
/ 692 ms, and 2.0 times the share; with 20 for each child 485 / 611 and 557 / 676, and 6.1 times."""

MOST_CHILDREN = 8
"""A node has some eight neighbours."""


def simulated_pieces(id: int, source: int, size: int) -> tuple[Preamble, tuple[Piece, ...]]:
    """The preamble and the pieces of a message of `size` bytes."""
    preamble = Preamble(id, source, size, piece_size(size), bytes(HASH_BYTES))
    root, length = preamble.root, preamble.length
    pieces = (Piece(id, root, i, b"", (), length(i)) for i in range(preamble.count))
    return preamble, tuple(pieces)


def belongs(preamble: Preamble, piece: Piece) -> bool:
    """Whether `piece` has the size that `preamble` says: there are no bytes to check."""
    return piece.size == preamble.length(piece.index)


def children_by_uplink(params: EpisubParams, uplink: float, differ: bool) -> EpisubParams:
    """`params` with as many children for pieces as an uplink of `uplink` Mbit/s has room for, where
    the hosts' uplinks `differ`."""
    if not differ:
        return params
    children = min(int(uplink / PER_CHILD), 2)
    children = min(max(children, int(uplink / PER_THIRD_CHILD)), MOST_CHILDREN)
    return replace(params, broadcast=replace(params.broadcast, piece_children=children))
