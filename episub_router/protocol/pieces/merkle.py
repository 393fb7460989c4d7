"""Merkle trees over the pieces of a message: the tree of RFC 6962, section 2.1, with SHA-256."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """The hash of one piece."""
    return sha256(b"\x00" + data).digest()


def _node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def _split(count: int) -> int:
    """The largest power of two below `count`."""
    return int(1 << (count - 1).bit_length() - 1)


def root_and_proofs(leaves: Sequence[bytes]) -> tuple[bytes, list[tuple[bytes, ...]]]:
    """The root over the hashes `leaves`, and for each leaf its proof: the hashes beside its way
    up, the lowest first. Raises ValueError without leaves."""
    if not leaves:
        raise ValueError("a Merkle tree needs a leaf")
    if len(leaves) == 1:
        return leaves[0], [()]
    middle = _split(len(leaves))
    left, left_proofs = root_and_proofs(leaves[:middle])
    right, right_proofs = root_and_proofs(leaves[middle:])
    proofs = [(*proof, right) for proof in left_proofs]
    proofs += [(*proof, left) for proof in right_proofs]
    return _node_hash(left, right), proofs


def holds(root: bytes, count: int, index: int, leaf: bytes, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that `leaf` is the hash of piece `index` of `count` below `root`."""
    if not 0 <= index < count:
        return False
    # From the top down: at each level, which side the leaf is on, and how many it shares it with.
    sides = []
    while count > 1:
        middle = _split(count)
        sides.append(index >= middle)
        index, count = (index - middle, count - middle) if index >= middle else (index, middle)
    if len(proof) != len(sides):
        return False
    node = leaf
    for is_right, other in zip(reversed(sides), proof, strict=True):
        node = _node_hash(other, node) if is_right else _node_hash(node, other)
    return node == root
