"""Why something was dropped."""

from __future__ import annotations

from enum import Enum


class PubsubDrop(Enum):
    """Why `ResilientPubsub` dropped something. The value is the counter's name."""

    FRAME_OVERSIZED = "frame-oversized"
    """A frame longer than `max_inbound_rpc_size`; its stream was reset."""
    FRAME_MALFORMED = "frame-malformed"
    """A frame that is no RPC; its stream was reset."""
    FRAME_OVERDUE = "frame-overdue"
    """A frame that didn't end in `frame_timeout`, or had to make room; its stream was reset."""
    FRAME_CROWDED = "frame-crowded"
    """A frame of more than `MAX_FIELDS` fields, or `MAX_CONTROL` control messages."""
    FRAME_UNAFFORDABLE = "frame-unaffordable"
    """A frame of a peer whose faults have cost too much; its stream was reset."""
    FRAME_EMPTY = "frame-empty"
    """A frame with nothing in it."""
    STREAM_SUPERSEDED = "stream-superseded"
    """An inbound stream of a peer that opened another; it was reset."""
    RECORD_INVALID = "record-invalid"
    """A frame whose signed peer record is not its sender's, or holds more than any correct one."""
    KEY_COSTLY = "key-costly"
    """A message or record whose public key takes too long to verify with."""
    SUBSCRIPTIONS_TOO_MANY = "subscriptions-too-many"
    """The subscriptions of a frame with more than `max_subscriptions_per_rpc` of them."""
    SUBSCRIPTIONS_TOO_FAST = "subscriptions-too-fast"
    """A change of a subscription beyond `subscription_changes`."""
    TOPIC_UNREADABLE = "topic-unreadable"
    """A message or subscription with a topic that is not UTF-8, or longer than 1,024 bytes."""
    TOPICS_REFUSED = "topics-refused"
    """A message that names a topic twice, or more than 8."""
    MESSAGE_PADDED = "message-padded"
    """A message with bytes that neither its author signed nor its verification needs."""
    MESSAGE_AUTHORED = "message-authored"
    """A message with an author, a sequence number, a signature or a key under StrictNoSign."""
    MESSAGE_UNVERIFIABLE = "message-unverifiable"
    """A message whose verification or validation raised, for example over a garbage key."""
    VALIDATION_FULL = "validation-full"
    """A message that came while its peer's share of the validation queue was in use."""
    ROUTER_RAISED = "router-raised"
    """A frame that the router's `handle_rpc`, or a message that its `publish` raised over."""
    STREAM_FAILED = "stream-failed"
    """An inbound stream whose handler raised something unforeseen; it was reset."""
    SUBSCRIBER_SLOW = "subscriber-slow"
    """A message for a subscription whose buffer was full."""


FAULTS = (
    PubsubDrop.FRAME_CROWDED,
    PubsubDrop.FRAME_EMPTY,
    PubsubDrop.RECORD_INVALID,
    PubsubDrop.KEY_COSTLY,
    PubsubDrop.SUBSCRIPTIONS_TOO_MANY,
    PubsubDrop.TOPIC_UNREADABLE,
    PubsubDrop.TOPICS_REFUSED,
    PubsubDrop.MESSAGE_PADDED,
    PubsubDrop.MESSAGE_AUTHORED,
)
"""Drops of what no correct peer sends."""

REJECTED = (
    PubsubDrop.VALIDATION_FULL,
    PubsubDrop.MESSAGE_UNVERIFIABLE,
    PubsubDrop.KEY_COSTLY,
    PubsubDrop.MESSAGE_PADDED,
    PubsubDrop.MESSAGE_AUTHORED,
    PubsubDrop.TOPICS_REFUSED,
)
"""Drops of messages, which are traced as such."""
