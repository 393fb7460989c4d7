"""The bytes of a channel's messages (S01)."""

from episub_router.sds.wire.codec import (
    MAX_SEGMENTS,
    Codec,
    SdsWireError,
    attach_origin,
    detach_origin,
    peek_channel,
)

__all__ = [
    "MAX_SEGMENTS",
    "Codec",
    "SdsWireError",
    "attach_origin",
    "detach_origin",
    "peek_channel",
]
