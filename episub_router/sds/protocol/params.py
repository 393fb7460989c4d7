"""Every parameter of SDS: unit, default, and where the default comes from.

Sources: `spec` is sds.md or its published successor (LIP-109); `js` is the npm package
@waku/sds 0.0.8; `ours` is a choice of this project, with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from episub_router.util.params import check_numbers, param


class WireFormat(Enum):
    """The schema that is written (S01). Both are always read."""

    CURRENT = "current"
    """The published schema: sender_id, HistoryEntry history, uint64 clock, repair_request."""
    SEED = "seed"
    """The first schema: history of plain ids and an int32 clock, no sender and no repair."""


class LostPolicy(Enum):
    """What happens to a message when a dependency is given up as lost (S11)."""

    DELIVER = "deliver"
    """Deliver it and name the dependencies in `missing`."""
    HOLD = "hold"
    """Keep waiting: order before liveness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsParams:
    """Parameters of one participant. Raises ValueError where values contradict."""

    wire: WireFormat = param(WireFormat.CURRENT, "schema", "spec: the published successor")

    # clock and history
    max_clock_lead: float = param(
        86_400.0, "s", "ours: a clock further ahead than a day is a fault or an attack (S02)"
    )
    causal_history: int = param(
        10,
        "ids",
        "ours: with the spec's 2 and concurrent senders 4-16 % of messages are in nobody's "
        "history; with 10, heads first, none is",
    )
    compact: bool = param(
        True,
        "yes or no",
        "ours: while nothing is missing, only heads are named and no filter is sent; members of "
        "other implementations need no",
    )
    heads_named: int = param(
        2048,
        "ids",
        "measured: with 64 and 100 writers at once, 8.5 % of messages were delivered before one "
        "that their sender had seen. Those after the first `causal_history` take 36 bytes each",
    )
    gaps_named: int = param(
        64, "ids", "ours: 2.3 kB; with more gaps, only what is named is acknowledged"
    )
    log_limit: int = param(
        100_000, "messages", "ours: about 40 MB of index; older messages leave the log"
    )

    unread_limit: int = param(
        100_000, "messages", "ours: as many as the log; deliveries that left it unread"
    )
    offer_limit: int = param(
        5, "times", "ours: a delivery that ends the application so often is skipped"
    )

    # bloom filter
    bloom_capacity: int = param(
        500, "ids", "ours: 632 bytes per message; the js default of 10,000 costs 18,752"
    )
    bloom_error_rate: float = param(0.01, "probability", "ours: hints that resending can wait")
    bloom_keep: float = param(0.75, "share", "ours: rebuilding costs three inserts per message")

    # acknowledgements and resending
    ack_quorum: int = param(1, "senders", "spec: acknowledged by at least some participants")
    promote_below: float = param(
        1e-6, "probability", "ours: a filter with a lower false-positive rate is an acknowledgement"
    )
    resend_interval: float = param(5.0, "s", "ours: several round trips and a repair by pull")
    possibly_resend_interval: float = param(60.0, "s", "ours: spec S12 wants it longer")
    resend_factor: float = param(2.0, "factor", "spec of MVDS: exponential back-off")
    resend_limit: int = param(6, "sends", "ours: over 5 minutes at a base of 5 s")
    timer_jitter: float = param(0.2, "share", "ours: each period is drawn from ±20 %")
    outgoing_limit: int = param(
        512, "messages", "ours: beyond it `send` waits, or nobody is there to resend the oldest to"
    )
    tracked_limit: int = param(1000, "messages", "ours: own messages whose holders are remembered")

    # incoming buffer and missing dependencies
    incoming_limit: int = param(10_000, "messages", "nim-sds: bounded buffers; at most 1 MiB each")
    incoming_bytes: int = param(64 * 2**20, "bytes", "ours: what a hostile group may cost")
    wanted_limit: int = param(10_000, "ids", "ours: one dependency per buffered message")
    sender_share: float = param(0.25, "share", "ours: of a buffer, for one sender")
    lost_after: float = param(600.0, "s", "ours: outlasts several repair periods (S11)")
    on_lost: LostPolicy = param(LostPolicy.DELIVER, "policy", "js: deliver, so that all can rejoin")
    tombstone_limit: int = param(10_000, "ids", "ours: ids given up as lost")

    # pull over direct streams
    pull_delay: float = param(0.5, "s", "ours: what is only late arrives first")
    pull_retry: float = param(2.0, "s", "ours: doubles up to pull_timeout")
    pull_timeout: float = param(10.0, "s", "ours: a stream that is slower is given up")
    pull_batch: int = param(100, "ids", "Waku store: at most 100 in a request")
    heads_delay: float = param(1.0, "s", "ours: spread of the questions after a peer appears")
    heads_on_join: int = param(3, "peers", "ours: three, so that one stale peer can't mislead")
    gone_after: int = param(
        8, "peers", "ours: where so many have purged some messages and lack one, it is lost"
    )
    catchup_turn: float = param(
        30.0, "s", "ours: a peer that brings little in that time is left for another"
    )
    page_items: int = param(
        4000, "messages", "ours: 100,000 short messages in 30 round trips; Waku store has 100"
    )
    page_bytes: int = param(2**20, "bytes", "ours: one message of the largest size")
    heads_interval: float = param(60.0, "s", "go-ds-crdt: heads are announced every minute")
    peers_limit: int = param(256, "peers", "ours: more direct peers than a router keeps")

    # sync messages
    sync_interval: float = param(30.0, "s", "js: up to 30 s")
    sync_soon: float = param(
        5.0, "s", "ours: after a message from a member that lacks a head of ours"
    )
    confirm_delay: float = param(
        2.0, "s", "ours: one member confirms a message before its author resends it"
    )
    sync_gap: float = param(1.0, "s", "ours: between two sync messages of one participant")
    sync_spread: float = param(
        0.1, "s", "ours: per member, so that one of a large group speaks first"
    )

    # SDS-R
    repair_min: float = param(
        2.0, "s", "measured: leaves time for exact pull; js waits 30 s because it has none"
    )
    repair_max: float = param(
        10.0,
        "s",
        "measured: 50 members without direct streams at 30 % loss have p99 below 10 s, and with "
        "10 to 60 s it was 39 s for more bytes",
    )
    repair_requests: int = param(3, "ids", "spec SDS-R: per message")
    repair_honoured: int = param(16, "ids", "ours: of one message; more are ignored")
    repair_rate: float = param(
        10.0, "messages/s", "ours: what one member repairs for all others together"
    )
    repair_limit: int = param(1000, "ids", "js: buffer of 1,000")
    group_members: int = param(128, "members", "spec SDS-R: participants per response group")

    # memory of the group
    members_limit: int = param(4096, "senders", "ours: bound of every table by sender")
    member_ttl: float = param(300.0, "s", "ours: ten sync intervals of silence")
    ephemeral_memory: int = param(1024, "ids", "ours: duplicates of ephemeral messages")

    # limits of one message
    max_message: int = param(2**20, "bytes", "py-libp2p: pubsub carries at most 1 MiB")
    max_content: int = param(
        64 * 2**20, "bytes", "ours: goes in several messages; readers hold all of it in memory"
    )
    max_id: int = param(256, "bytes", "ours: four times a hex sha256")
    max_hint: int = param(256, "bytes", "ours: eight times a Waku message hash")
    max_history: int = param(4096, "ids", "ours: twice heads_named; the js default is 200")

    def __post_init__(self) -> None:
        check_numbers(self, _ZERO)
        for name in ("bloom_error_rate", "bloom_keep", "sender_share"):
            if getattr(self, name) >= 1 and name != "sender_share":
                raise ValueError(f"{name} must be below 1: {getattr(self, name)}")
        if self.sender_share > 1:
            raise ValueError(f"sender_share must be at most 1: {self.sender_share}")
        if not 0 <= self.timer_jitter < 1:
            raise ValueError(f"timer_jitter must be in [0, 1): {self.timer_jitter}")
        if self.causal_history < 2:
            raise ValueError(
                f"causal_history must hold a head and our last message: {self.causal_history}"
            )
        if self.heads_named < 2:
            raise ValueError(f"heads_named must hold a head and our last: {self.heads_named}")
        if self.causal_history > self.max_history or self.heads_named > self.max_history:
            raise ValueError("causal_history and heads_named must not exceed max_history")
        if self.repair_min >= self.repair_max:
            raise ValueError(
                f"repair_min must be below repair_max: {self.repair_min} >= {self.repair_max}"
            )


_ZERO = frozenset(
    {"gaps_named", "timer_jitter", "pull_delay", "heads_delay", "sync_spread", "promote_below"}
)
