"""The bytes of a channel's messages (S01)."""

from episub_router.sds.wire.codec import Codec, WireError

__all__ = ["Codec", "WireError"]
