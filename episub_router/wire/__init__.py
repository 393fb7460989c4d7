"""The Episub frame inside gossipsub's RPC (clause E42). docs/wire.md describes every byte."""

from episub_router.wire.authorship import (
    Authorship,
    has_key_for_preambles,
    sign_preamble,
    verify_preamble,
)
from episub_router.wire.decode import decode_frame
from episub_router.wire.encode import encode_frame
from episub_router.wire.frame import Decoded, Frame, WireError, WireFault
from episub_router.wire.keys import is_for_preambles
from episub_router.wire.limits import WireLimits, check_params, check_topics
from episub_router.wire.source import source_id

__all__ = [
    "Authorship",
    "Decoded",
    "Frame",
    "WireError",
    "WireFault",
    "WireLimits",
    "check_params",
    "check_topics",
    "decode_frame",
    "encode_frame",
    "has_key_for_preambles",
    "is_for_preambles",
    "sign_preamble",
    "source_id",
    "verify_preamble",
]
