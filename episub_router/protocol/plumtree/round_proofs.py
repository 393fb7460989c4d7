"""Rounds of ROOT are seconds of the source's clock. Each has a proof that only the source can make
before it has sent it: the values of one-way chains, told backwards (TESLA, RFC 4082)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from episub_router.protocol.messages import TreeRoot
from episub_router.protocol.plumtree.tree import MAX_TREES, TREE_IDLE, Tree
from episub_router.protocol.types import SourceId

PROOF_BYTES = 8  # Chosen: nobody tries so many values before the next round
ROUNDS = 2**14
"""Rounds of one chain; they are counted modulo this. Chosen: two bytes on the wire, 4.5 hours, and
some 8 ms of CPU, once."""
_MARK = 2**7  # Rounds between two values of our own chains that are remembered


def earlier(proof: bytes, rounds: int) -> bytes:
    """The proof of the round `rounds` before that of `proof`."""
    for _ in range(rounds):
        proof = sha256(proof).digest()[:PROOF_BYTES]
    return proof


def is_later(known: Tree | TreeRoot, other: Tree | TreeRoot) -> bool:
    """Whether the round of `other` is one of the same source after that of `known`, by its proof.
    The next chain is believed, since nothing leads there."""
    ahead = (other.round - known.round) % ROUNDS
    if not 0 < ahead <= TREE_IDLE:  # Sources send one sooner.
        return False
    return other.round < known.round or earlier(other.proof, ahead) == known.proof


def own_proof(secret: bytes, source: SourceId, round: int) -> bytes:
    """The proof of one of our own rounds, which is not counted modulo `ROUNDS` here."""
    chain, place = divmod(round, ROUNDS)
    end = sha256(secret + repr((source, chain)).encode()).digest()[:PROOF_BYTES]
    marks, rest = divmod(ROUNDS - 1 - place, _MARK)
    return earlier(_marked(end, marks), rest)


@lru_cache(maxsize=MAX_TREES * ROUNDS // _MARK)
def _marked(end: bytes, marks: int) -> bytes:
    return earlier(_marked(end, marks - 1), _MARK) if marks else end
