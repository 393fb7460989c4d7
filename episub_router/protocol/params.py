"""Every parameter of the protocol: unit, default, and where the default comes from.

Sources: `spec` is episub.md r1; `HyParView` is Leitão, Pereira and Rodrigues, DSN 2007, with
the values of its p. 9; `Plumtree` is the same authors' SRDS 2007 paper; `ours` is a choice
of this project, with its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from episub_router.util.params import Rate, check_numbers, param

SEEN_MESSAGES = 65_536
"""Bound of the ids known (E41). Ours: 120 s at over 500 messages/s."""


class EagerRepair(Enum):
    """What is done when an eager link is lost (E40)."""

    EAGER = "eager"
    """Promote a lazy peer with an empty GRAFT at once; PRUNEs thin the tree again."""
    LAZY = "lazy"
    """Wait for the next IHAVE to repair the tree, as the Plumtree paper does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipParams:
    """Parameters of the overlay (E01-E21). Raises ValueError where values contradict."""

    active_size: int = param(7, "peers", "spec: A = 7 at N = 10,000")
    random_links: int = param(4, "peers", "spec: C_rand = 4 at N = 10,000")
    near_links: int = param(3, "peers", "spec: C_near = 3 at N = 10,000")
    passive_size: int = param(42, "peers", "spec: P = 42 at N = 10,000")
    active_slack: int = param(
        5, "peers", "ours: the hard bound on oversubscription (E13) is active_size plus this"
    )
    join_ttl: int = param(6, "hops", "HyParView: ARWL 6")
    join_timeout: float = param(
        5.0,
        "s",
        "measured: six hops and a dial take 1 s between idle hosts and over 2 s between 20 that "
        "share a busy core; trying again too soon brings links that nobody wants",
    )
    nodes_timeout: float = param(3.0, "s", "ours: one round trip and a dial, with room")
    contacts_asked: int = param(3, "peers", "ours: three contacts, so that one can't eclipse us")
    nodes_size: int = param(16, "peers", "gossipsub v1.1: PX sends 16 peers")
    neighbor_timeout: float = param(
        5.0,
        "s",
        "ours: as join_timeout; a dial, an RTT measurement and a round trip",
    )
    grow_interval: float = param(5.0, "s", "ours: as Partisan's random promotion")
    join_grow_interval: float = param(
        1.5,
        "s",
        "measured: in place of grow_interval until the view was full once, where there are near "
        "links. Of many that ask at a time the nearest comes first: after five minutes 1,000 nodes "
        "with uniform latencies have random links of 56 ms in place of 68, and a flood takes 89 ms "
        "in place of 96",
    )
    refused_backoff: float = param(
        120.0,
        "s",
        "measured: a search for the last links asks a dozen others meanwhile; with 30 s it asks "
        "the nearest few again and again",
    )
    shuffle_interval: float = param(
        30.0, "s", "ours: between Partisan (10 s) and iroh-gossip (60 s)"
    )
    shuffle_timeout: float = param(
        5.0, "s", "ours: a walk of six hops, a dial that takes its time, and the reply"
    )
    shuffle_active: int = param(3, "peers", "HyParView: ka 3")
    shuffle_passive: int = param(4, "peers", "HyParView: kp 4")
    shuffle_ttl: int = param(6, "hops", "HyParView: shuffle TTL 6")
    stabilize_interval: float = param(
        10.0, "s", "ours: a join storm is over by then, and a view too large costs only bandwidth"
    )
    list_timeout: float = param(1.0, "s", "ours: a round trip of 300 ms, with room")
    leave_ttl: int = param(3, "hops", "ours: reaches the leaver's neighbours' neighbours")
    leave_memory: int = param(512, "leaves", "ours: bound of the table that stops LEAVE loops")
    link_check_interval: float = param(
        30.0, "s", "ours: a silent half-open link ends after three or four of these"
    )
    optimize_interval: float = param(10.0, "s", "ours: as stabilize_interval")
    optimize_rest_interval: float = param(
        60.0, "s", "ours: in place of optimize_interval where all neighbours are near"
    )
    rtt_samples: int = param(
        1, "peers", "ours: neighbours pinged in one optimize_interval, so each within about 70 s"
    )
    first_rtt_samples: int = param(
        3,
        "peers",
        "ours: neighbours pinged in one optimize_interval while some never were; a ping costs 5 ms "
        "of CPU, which a host that is joining has none to spare of",
    )
    upkeep_interval: float = param(
        7.5,
        "s",
        "measured: after five minutes, near links of 1,000 nodes on a plane have 0.19 of the RTT "
        "of random pairs, 0.165 if periods never grew, 0.21 with 15 s; grows to eight times while "
        "nothing nearer is found, and where dials are slow",
    )
    upkeep_peers: int = param(
        4,
        "peers",
        "measured: with upkeep_interval; passive peers dialled in one, 20 ms of CPU each; on a LAN "
        "upkeep_rest_interval saves them",
    )
    upkeep_rest_interval: float = param(
        120.0,
        "s",
        "ours: in place of upkeep_interval where all neighbours are near; a full view is then "
        "checked in 21 minutes",
    )
    recontact_interval: float = param(
        15.0, "s", "ours: halves that were cut apart find each other within a minute"
    )
    lost_tried_at_once: int = param(2, "peers", "ours: lost neighbours dialled in one interval")
    lost_tries: int = param(20, "dials", "ours: a lost neighbour is dialled for ten minutes or so")
    lost_memory: int = param(16, "peers", "ours: more than the hard bound of the active view")
    contact_interval: float = param(
        300.0, "s", "ours: a bootstrap node of 10,000 gets 33 GETNODES a second"
    )
    rtt_failures: int = param(
        3,
        "samples",
        "ours: failed in a row until a neighbour is as far as can be, and a passive peer gone",
    )
    rtt_advantage: float = param(2.0, "factor", "spec and GoCast: alpha = 2")
    rtt_min_gain: float = param(
        0.005, "s", "ours: below 5 ms an RTT over py-libp2p measures CPU queueing, not distance"
    )
    dynamic_sizing: bool = param(
        False,
        "switch",
        "measured: at 100 and 1,000 nodes it saves 4 to 7 % of the control bytes; the estimate is "
        "low by 3 %, 24 % and, at 10,000, 65 % (docs/results/sizing.md)",
    )
    size_window: int = param(
        1000, "ids", "ours: ten minutes of passing shuffles; 20 equal pairs at 25,000 nodes"
    )
    size_interval: float = param(60.0, "s", "ours: in no hurry")
    least_random: int = param(3, "peers", "ours: C_rand never below, whatever the estimate")
    most_random: int = param(6, "peers", "ours: C_rand never above, whatever the estimate")
    timer_jitter: float = param(0.2, "share", "ours: each period is drawn from ±20 %")
    passive_share: float = param(
        0.25,
        "share",
        "ours: of a full passive view, for what one peer or address prefix told, and for the peers "
        "of one prefix; a sender that lies needs four prefixes",
    )
    dials_for_others: float = param(
        0.5, "share", "ours: of max_waiting; the rest is kept for the dials that we want ourselves"
    )
    join_limit: Rate = param(
        Rate(5, 100),
        "JOINs a peer",
        "measured: a neighbour relays 27 at most while 300 nodes join within a second, 15 while "
        "1,000 join in 10 s",
    )
    forward_join_limit: Rate = param(
        Rate(0.2, 30),
        "FORWARDJOINs a peer",
        "ours: at 1 % churn a second a link carries 0.03/s; the peers on the way take each for the "
        "word of who passed it on",
    )
    neighbor_limit: Rate = param(
        Rate(1, 20), "NEIGHBORs a peer", "measured: 3 at once; link checks take one each 7 s or so"
    )
    request_limit: Rate = param(
        Rate(0.1, 5),
        "requests a peer",
        "ours: a refused peer comes back after 30 s, and optimisation asks once in 10 s",
    )
    shuffle_limit: Rate = param(
        Rate(1, 20), "SHUFFLEs a peer", "measured: 4 at once; a link carries one in 4 s or so"
    )
    leave_limit: Rate = param(
        Rate(20, 200),
        "LEAVEs a peer",
        "measured: 91 at most when half of 1,000 nodes leave at once",
    )
    query_limit: Rate = param(
        Rate(0.5, 10), "GETNODES or GETTOPICS a peer", "ours: a lonely node asks once in 3 s"
    )
    limited_peers: int = param(
        1024, "peers", "ours: bound of the table of limits; several times a host's connections"
    )
    max_waiting: int = param(64, "peers", "ours: bound of every table of requests under way")

    def __post_init__(self) -> None:
        check_numbers(self, _MAY_BE_ZERO)
        if self.active_size < self.random_links + self.near_links:
            raise ValueError(
                f"active_size must hold random_links + near_links: "
                f"{self.active_size} < {self.random_links} + {self.near_links}"
            )
        if self.least_random > self.most_random:
            raise ValueError(
                f"least_random must not be above most_random: "
                f"{self.least_random} > {self.most_random}"
            )
        for name in ("passive_share", "dials_for_others"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} must be at most 1: {getattr(self, name)}")
        if not 0 <= self.timer_jitter < 1:
            raise ValueError(f"timer_jitter must be in [0, 1): {self.timer_jitter}")

    @property
    def active_bound(self) -> int:
        """The size that the active view never exceeds."""
        return self.active_size + self.active_slack

    @classmethod
    def for_size(cls, nodes: int, *, c: int = 1, k: int = 6, near: int = 3) -> MembershipParams:
        """Parameters for an overlay of about `nodes` nodes (E01).

        C_rand = log10(N), A = C_rand + C_near and P = k·A, as the specification's example
        has it (N = 10,000: C_rand = 4, A = 7, P = 42). With `near=0`, A = log10(N) + c, which
        is HyParView's own active view (N = 10,000: A = 5, P = 30).
        """
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2: {nodes}")
        random_links = max(1, round(math.log10(nodes)))
        active = random_links + (near or c)
        return cls(
            active_size=active,
            random_links=random_links,
            near_links=near,
            passive_size=k * active,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastParams:
    """Parameters of the trees (E30-E41). Raises ValueError where values contradict."""

    lazy_interval: float = param(
        1.0,
        "s",
        "gossipsub: a heartbeat of 1 s; spec: in the order of 0.1 s; measured at 5 messages/s and "
        "A = 7: 5 IHAVE frames a delivery with 0.1 s, 1.2 with 1 s, and a frame costs 0.5 ms of "
        "CPU; each flush comes after 0.5 to 1 of it",
    )
    """Longest time that an id waits in the lazy push queue for its IHAVE."""
    missing_tick: float = param(
        0.5,
        "s",
        "ours: a message counts as missing 0.5 to 1 s after its IHAVE, longer than the 9 hops "
        "of 25-50 ms links that a tree of 10,000 nodes has",
    )
    """Period of the GRAFT timer, which asks for missing messages from its second tick on."""
    leading_window: int = param(
        8,
        "messages",
        "measured: five sources, 500 nodes, new links all the time: p99 2,273 ms where every "
        "duplicate prunes (0), 362 ms with 8 (docs/results/README.md); one source knows no "
        "difference",
    )
    """Messages among whose sources one leads; only its duplicates prune. 0: all prune."""
    optimization_threshold: int | None = param(
        1,
        "hops",
        "measured: lower latencies than 3, 7 (Plumtree, p. 12) and off, with five and with fifty "
        "sources, at a like RMR (docs/results/README.md)",
    )
    """Hops that an announcer must be nearer to replace the parent; None: no tree optimisation."""
    near_parent_window: float = param(
        0.005,
        "s",
        "measured: three sites: 3.5 copies between them in place of 12.5; 1,000 nodes on a plane: "
        "0.2 ms more latency, 0.4 ms with 10 ms",
    )
    """How much later a near neighbour's copy may arrive to make it the parent. 0: the first copy
    makes the tree, as in Plumtree."""
    repair: EagerRepair = param(
        EagerRepair.EAGER, "strategy", "spec: for applications that value latency"
    )
    """What is done when an eager link is lost (E40)."""
    cache_ttl: float = param(30.0, "s", "iroh-gossip: messages kept for 30 s")
    """How long a payload is kept to answer GRAFTs."""
    cache_messages: int = param(4096, "messages", "ours: 30 s at over 100 messages/s")
    """Payloads kept at most."""
    cache_bytes: int = param(32 * 2**20, "bytes", "ours: 32 messages of the largest size")
    """Bytes of payloads kept at most."""
    seen_ttl: float = param(120.0, "s", "py-libp2p: Pubsub's seen_ttl")
    """How long an id is known, so that its message isn't delivered again."""
    validation_timeout: float = param(
        10.0, "s", "ours: twice py-libp2p's validation_timeout, which is never reported to us"
    )
    """How long a payload may be in validation before it counts as rejected."""

    def __post_init__(self) -> None:
        check_numbers(self, _MAY_BE_ZERO, {"optimization_threshold"})
        if self.seen_ttl < self.cache_ttl:
            raise ValueError(
                f"seen_ttl must not be shorter than cache_ttl: {self.seen_ttl} < {self.cache_ttl}"
            )
        if self.cache_messages > SEEN_MESSAGES:
            raise ValueError(
                f"cache_messages must be at most {SEEN_MESSAGES}: {self.cache_messages}"
            )

    @property
    def soonest_repair(self) -> float:
        """Seconds from a message's arrival until a neighbour that was announced it can have got it
        from us and sent it back."""
        return self.lazy_interval / 2 + self.missing_tick


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisubParams:
    """Both halves together: what `EpisubRouter` takes."""

    membership: MembershipParams = field(default_factory=MembershipParams)
    broadcast: BroadcastParams = field(default_factory=BroadcastParams)


_MAY_BE_ZERO = frozenset(
    {"random_links", "near_links", "active_slack", "rtt_min_gain", "timer_jitter", "leave_ttl",
     "join_ttl", "shuffle_active", "shuffle_passive", "shuffle_ttl",
     "upkeep_peers", "near_parent_window", "optimization_threshold", "leading_window"}
)  # fmt: skip
