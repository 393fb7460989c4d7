"""A range of a log and a hash over it, which two logs compare."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.sds.protocol.entry import Key


@dataclass(frozen=True, slots=True)
class RangeHash:
    """The messages with after < key <= until: how many, and their salted hash.

    None is an open bound.
    """

    after: Key | None
    until: Key | None
    count: int
    hash: bytes
