"""Signature policies: whether messages name and prove their authors (the pubsub specification)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from libp2p.pubsub.pb.rpc_pb2 import Message


class SignaturePolicy(Enum):
    """What the messages of a `ResilientPubsub` carry, those that it publishes and those that it
    accepts."""

    STRICT_SIGN = "StrictSign"
    """Author, sequence number and signature."""
    STRICT_NO_SIGN = "StrictNoSign"
    """None of them: a message is its topic and its data."""


def pubsub_options(policy: SignaturePolicy | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `Pubsub` for `policy`; without one, `options` as they are.

    Raises ValueError for what contradicts it.
    """
    if policy is None:
        return dict(options)
    signs = policy is SignaturePolicy.STRICT_SIGN
    if options.get("strict_signing", signs) is not signs:
        raise ValueError(f"strict_signing={not signs} contradicts {policy.value}")
    constructor: Callable[[Message], bytes] | None = options.get("msg_id_constructor")
    if not signs and constructor is None:
        raise ValueError(
            "StrictNoSign needs a msg_id_constructor that makes ids of the content, the same at "
            "every node: messages have no author and no sequence number"
        )
    return {**options, "strict_signing": signs}
