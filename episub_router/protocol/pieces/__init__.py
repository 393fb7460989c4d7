"""Large messages in pieces, along narrow trees (beyond the specification).

`LargeBroadcast` stands in front of Plumtree with the same interface; `Pieces` is the machine of the
pieces themselves.
"""

from episub_router.protocol.pieces.large_broadcast import LargeBroadcast
from episub_router.protocol.pieces.machine import Pieces

__all__ = ["LargeBroadcast", "Pieces"]
