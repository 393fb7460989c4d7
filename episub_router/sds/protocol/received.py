"""What comes in from the network."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from episub_router.sds.protocol.effects import PeerRef
from episub_router.sds.protocol.message import Message


class Way(Enum):
    """How a message came to us, which decides what it proves."""

    BROADCAST = "broadcast"
    """Published by its sender, or by a peer that nothing distinguishes from its sender."""
    REPAIRED = "repaired"
    """Published by another member, with its sender's proof: tells nothing of the present."""
    PULLED = "pulled"
    """Asked for over a direct stream: tells nothing of the present."""
    UNPROVEN = "unproven"
    """Nothing shows that its sender made it: it is dropped."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as it came: its value, its bytes, and its way.

    `source` is a peer that should have what the message refers to. `origin` is kept with the
    message and handed out with it; the participant doesn't look into it.
    """

    message: Message
    raw: bytes
    way: Way = Way.BROADCAST
    source: PeerRef | None = None
    origin: bytes = b""
