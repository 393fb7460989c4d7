"""Every parameter of `ResilientPubsub`: unit, default, source of the default."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.util.params import Rate, check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class PubsubParams:
    """Parameters of `ResilientPubsub`. Raises ValueError for one that is not positive."""

    subscription_buffer: int = param(
        1024, "messages", "chosen: 5 s of stalled reader at 200 messages/s; py-libp2p has 32"
    )
    """Messages that wait for the reader of a subscription."""
    max_validating: int = param(1024, "messages", "chosen: more than 10 validators do at once")
    """Messages in validation, of all peers; one alone gets half, and each next half of the rest."""
    max_validating_bytes: int = param(
        32 * 2**20, "bytes", "chosen: 32 messages of the largest size; divided in the same way"
    )
    """Bytes of the messages in validation."""
    subscription_changes: Rate = param(
        Rate(32, 256), "changes", "chosen: twice the 100 topics that a peer may be in, at once"
    )
    """How often a peer may change its subscriptions."""
    frame_timeout: float = param(30.0, "s", "chosen: 1 MiB at 300 kbit/s")
    """Time for a frame, from its first byte to its last."""
    max_unfinished_bytes: int = param(
        16 * 2**20, "bytes", "chosen: half of the memory that a hostile peer may cost"
    )
    """Bytes of frames that haven't ended, of all peers; beyond, the oldest one makes room."""
    work: Rate = param(
        Rate(200, 500), "ms of CPU", "chosen: five such peers for one core; some 4,000 duplicates"
    )
    """What a peer's frames may cost; beyond, its next frame waits. What brings new valid messages
    isn't charged."""
    faults: Rate = param(
        Rate(20, 300), "ms of CPU", "chosen: a tenth; a third of what 1 MB of bad input may cost"
    )
    """What a peer's frames that no correct peer sends may cost, forged messages among them; beyond,
    its stream is reset."""
    seen_ttl: int = param(300, "s", "chosen: the router's, so that nothing is delivered twice")
    """How long the ids of messages are remembered."""
    warn_every: int = param(1000, "drops", "chosen: a flood of bad input is no flood of log lines")
    """A warning is logged for the first drop of each reason, and after as many more."""

    def __post_init__(self) -> None:
        check_numbers(self)
