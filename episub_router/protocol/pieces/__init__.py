"""Large messages in pieces, along narrow trees (beyond the specification)."""

from episub_router.protocol.pieces.machine import Pieces

__all__ = ["Pieces"]
