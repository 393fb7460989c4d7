"""The bytes of a channel's messages (S01)."""

from episub_router.sds.wire.codec import Codec, SdsWireError, peek_channel

__all__ = ["Codec", "SdsWireError", "peek_channel"]
