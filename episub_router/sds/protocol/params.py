"""Every parameter of SDS: unit, default, and where the default comes from.

Sources: `spec` is sds.md or its published successor (LIP-109); `js` is the npm package
@waku/sds 0.0.8; `chosen` is a choice of this project, with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from episub_router.util.params import check_numbers, param


class LostPolicy(Enum):
    """What happens to a message when a dependency is given up as lost (S11)."""

    DELIVER = "deliver"
    """Deliver it and name the dependencies in `missing`."""
    HOLD = "hold"
    """Keep waiting: order before liveness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsParams:
    """Parameters of one participant. Raises ValueError where values contradict."""

    max_clock_lead: float = param(
        86_400.0, "s", "chosen: a clock further ahead than a day is a fault or an attack (S02)"
    )
    """How far ahead of the time of day the clock of a message may be."""

    # what is kept
    log_limit: int = param(
        100_000,
        "messages",
        "chosen: about 40 MB of index; of a full log, the sender with most yields",
    )
    """Messages of a log, and so how far its readers may be behind."""
    incoming_limit: int = param(
        10_000,
        "messages",
        "chosen: 64 MiB, what a hostile group may cost",
    )
    """Messages that wait for others before them."""
    wanted_limit: int = param(10_000, "ids", "chosen: one dependency per buffered message")
    """Missing messages that are asked for."""

    # acknowledgements and resending
    ack_quorum: int = param(1, "senders", "spec: acknowledged by at least some participants")
    """Members whose acknowledgement is enough to stop resending a message."""
    resend_interval: float = param(5.0, "s", "chosen: several round trips and a repair by pull")
    """Time until an unacknowledged message is sent again, the first time."""
    resend_limit: int = param(
        6, "sends", "chosen: over 5 minutes, each period twice the one before"
    )
    """How often an unacknowledged message is sent again."""
    outgoing_limit: int = param(
        512,
        "messages",
        "chosen: beyond it `send` waits, or nobody is there to resend the oldest to",
    )
    """Unacknowledged messages of this member."""

    # what is missing
    lost_after: float = param(600.0, "s", "chosen: outlasts several repair periods (S11)")
    """Time until a missing message is given up."""
    on_lost: LostPolicy = param(LostPolicy.DELIVER, "policy", "js: deliver, so that all can rejoin")
    """What happens to messages that depend on one that was given up."""
    pull_timeout: float = param(10.0, "s", "chosen: a stream that is slower is given up")
    """Time for an answer over a direct stream."""
    page_items: int = param(
        4000, "messages", "chosen: 100,000 short messages in 30 round trips; Waku store has 100"
    )
    """Messages in one answer over a direct stream."""
    page_bytes: int = param(2**20, "bytes", "chosen: one message of the largest size")
    """Bytes in one answer over a direct stream."""
    heads_interval: float = param(60.0, "s", "go-ds-crdt: heads are announced every minute")
    """Time between comparisons of logs with random peers, while these bring news."""

    # sync messages
    sync_interval: float = param(30.0, "s", "js: up to 30 s")
    """Time between sync messages of a group, while there is news."""
    confirm_delay: float = param(
        2.0, "s", "chosen: one member confirms a message before its author resends it"
    )
    """Time until one member confirms a new message with a sync message."""

    # SDS-R
    repair: bool = param(
        False, "yes or no", "chosen: direct streams do without; for groups that have none"
    )
    """Whether the group is asked for missing messages (SDS-R)."""
    repair_min: float = param(
        2.0, "s", "measured: leaves time for exact pull; js waits 30 s because it has none"
    )
    """Least time until the group is asked for a missing message."""
    repair_max: float = param(
        10.0,
        "s",
        "measured: 50 members without direct streams at 30 % loss have p99 below 10 s, and with "
        "10 to 60 s it was 39 s for more bytes",
    )
    """Longest time until then."""

    # limits of one message
    max_message: int = param(2**20, "bytes", "py-libp2p: pubsub carries at most 1 MiB")
    """Bytes of one SDS message."""
    max_content: int = param(
        64 * 2**20, "bytes", "chosen: goes in several messages; readers hold all of it in memory"
    )
    """Bytes of one content."""

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.max_message < 1024:
            raise ValueError(f"max_message must be at least 1024: {self.max_message}")
        if self.repair_min >= self.repair_max:
            raise ValueError(
                f"repair_min must be below repair_max: {self.repair_min} >= {self.repair_max}"
            )
