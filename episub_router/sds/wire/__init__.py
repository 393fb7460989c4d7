"""The bytes of a channel's messages (S01)."""

from episub_router.sds.wire.codec import Codec, SdsWireError, peek_channel
from episub_router.sds.wire.repair import attach_origin, detach_origin

__all__ = ["Codec", "SdsWireError", "attach_origin", "detach_origin", "peek_channel"]
