"""Every parameter of the protocol: what it does, its unit, default, and the source of the default.

Sources: `spec` is episub.md r1; `HyParView` is Leitão, Pereira and Rodrigues, DSN 2007 (p. 9);
`Plumtree` is their SRDS 2007 paper; `chosen` and `measured` are choices of this
project, each with its reason. Values that nobody has a reason to change are constants beside the
code that uses them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum

from episub_router.util.params import check_numbers, param

SEEN_MESSAGES = 65_536
"""Bound of the ids known (E41). Chosen: 300 s at over 200 messages/s."""


ACTIVE_SLACK = 5
"""Links beyond A up to the hard bound. Chosen: what joins bring at once, and two rings."""


class EagerRepair(Enum):
    """What is done when an eager link is lost (E40)."""

    EAGER = "eager"
    """Promote a lazy peer with an empty GRAFT at once; PRUNEs thin the tree again."""
    LAZY = "lazy"
    """Wait for the next IHAVE to repair the tree, as the Plumtree paper does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipParams:
    """Parameters of the overlay (E01-E21). Raises ValueError where values contradict."""

    active_size: int = param(8, "peers", "chosen: C_rand + C_near; spec: 7 at N = 10,000")
    """Links that a node aims at: random ones, near ones, and spare ones of either kind."""
    random_links: int = param(4, "peers", "spec: C_rand = 4 at N = 10,000")
    """Links to random peers, which keep the overlay connected."""
    near_links: int = param(
        4,
        "peers",
        "measured: with rings, 1,000 nodes have a p50 and p99 8 to 18 % shorter than with the "
        "specification's C_near = 3 and none, with 3 some 8 % longer (docs/security.md)",
    )
    """Links that follow proximity. 0: no proximity at all, as in HyParView."""
    rings: int = param(
        2,
        "rings",
        "measured: hostile members, 20 % of all, cost 300 nodes no message and eclipse nobody, "
        "whenever they come and whatever they claim; with one ring, late ones and cold boots do",
    )
    """Pseudo-random rings on which a node has links to the peer before it and the one after it,
    two of its random links each, which nobody can take (docs/security.md). No more than half of
    `random_links` are used."""
    passive_size: int = param(48, "peers", "spec: P = k·A with k = 6; 42 at A = 7")
    """Spare peers that a node knows at most."""
    join_ttl: int = param(6, "hops", "HyParView: ARWL 6")
    """Length of the random walks of JOIN and FORWARDJOIN."""
    shuffle_interval: float = param(
        60.0,
        "s",
        "iroh-gossip: 60 s; measured: at 1 % churn a second p50 and p99 are those of 30 s, for 80 "
        "control bytes a delivery less",
    )
    """Shortest period of the shuffle; it doubles until a link fails, up to 32 times this."""
    rtt_advantage: float = param(2.0, "factor", "spec and GoCast: alpha = 2")
    """How many times nearer a peer must be to replace a neighbour."""
    rtt_min_gain: float = param(
        0.005, "s", "chosen: below 5 ms an RTT over py-libp2p measures CPU queueing, not distance"
    )
    """Least RTT that a replacement must save."""

    def __post_init__(self) -> None:
        check_numbers(self, _MAY_BE_ZERO)
        if self.active_size < self.random_links + self.near_links:
            raise ValueError(
                f"active_size must hold random_links + near_links: "
                f"{self.active_size} < {self.random_links} + {self.near_links}"
            )

    @property
    def active_bound(self) -> int:
        """The size that the active view never exceeds: joins oversubscribe views for a while
        (E13)."""
        return self.active_size + ACTIVE_SLACK

    @property
    def ring_links(self) -> int:
        """How many of the random links are with neighbours on rings."""
        return 2 * min(self.rings, self.random_links // 2)

    @classmethod
    def for_size(cls, nodes: int, *, c: int = 1, k: int = 6, near: int = 4) -> MembershipParams:
        """Parameters for an overlay of about `nodes` nodes (E01).

        C_rand = log10(N), A = C_rand + C_near and P = k·A, as the specification's example
        has it (N = 10,000: C_rand = 4, A = 7, P = 42), but with one near link more by default.
        Two rings need C_rand = 4, which is N from 3,163 on; smaller overlays have one, or none
        below 32.
        With `near=0`, A = log10(N) + c without rings, which is HyParView's own active view
        (N = 10,000: A = 5, P = 30).
        """
        if nodes < 2:
            raise ValueError(f"nodes must be at least 2: {nodes}")
        random_links = max(1, round(math.log10(nodes)))
        active = random_links + (near or c)
        return cls(
            active_size=active,
            random_links=random_links,
            near_links=near,
            rings=cls().rings if near else 0,
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
    """Time between two flushes of the lazy push queue, at most; half of it at least."""
    source_trees: int = param(
        64, "trees", "chosen: memory for as many is some 130 KB a topic; sources beyond share trees"
    )
    """Sources of one topic that may have a tree of their own; 0: all share one tree."""
    parents: int = param(
        1, "peers", "spec: a tree; with two each message costs about two payloads a delivery"
    )
    """Neighbours that push each message of a source, 1 or 2. Two where members may be hostile:
    then no single one can hold a message back."""
    optimization_threshold: int | None = param(
        None,
        "hops",
        "measured: off, p50 and p99 of the shared tree are the same; with 1, hostile members that "
        "claim few hops make its p99 seven times as long (docs/security.md)",
    )
    """Hops that an announcer must be nearer to replace the parent; None: no tree optimisation."""
    repair: EagerRepair = param(
        EagerRepair.EAGER, "strategy", "spec: for applications that value latency"
    )
    """What is done when an eager link is lost (E40)."""
    cache_ttl: float = param(
        45.0, "s", "chosen: what was published 30 s before the end of a partition crosses after it"
    )
    """How long a payload is kept to answer GRAFTs."""
    cache_messages: int = param(4096, "messages", "chosen: 30 s at over 100 messages/s")
    """Payloads kept at most."""
    cache_bytes: int = param(32 * 2**20, "bytes", "chosen: 32 messages of the largest size")
    """Bytes of payloads kept at most."""
    seen_ttl: float = param(
        300.0,
        "s",
        "chosen: over six times cache_ttl, as a message that comes late is announced for that long",
    )
    """How long an id is known, so that its message isn't delivered again."""

    piece_threshold: int = param(
        128 * 1024,
        "bytes",
        "measured: 96 KiB at 50 Mbit/s, p99 in pieces and whole: a source's first message 664 to "
        "820 and 311 to 402 ms, as it waits for its tree; later ones 267 and 300 ms",
    )
    """Least size of a message that goes in pieces along narrow trees; 0: all go whole."""
    piece_children: int = param(
        2,
        "peers",
        "measured: 1 MB at 50 Mbit/s: p50 471 ms with two, 594 with three, 744 with four; a host "
        "with ten times the usual uplink can take ten times as many",
    )
    """Neighbours that one node pushes the pieces of one source to; 0: none, but for its own."""

    def __post_init__(self) -> None:
        check_numbers(self, _MAY_BE_ZERO, {"optimization_threshold"})
        if self.parents not in (1, 2):
            raise ValueError(f"parents must be 1 or 2: {self.parents}")
        if self.parents > 1 and not self.source_trees:
            raise ValueError("parents = 2 needs source_trees: the shared tree has one parent")
        if self.seen_ttl < self.cache_ttl:
            raise ValueError(
                f"seen_ttl must not be shorter than cache_ttl: {self.seen_ttl} < {self.cache_ttl}"
            )
        if self.cache_messages > SEEN_MESSAGES:
            raise ValueError(
                f"cache_messages must be at most {SEEN_MESSAGES}: {self.cache_messages}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisubParams:
    """The parameters of one topic's two machines: what `EpisubRouter` takes."""

    membership: MembershipParams = field(default_factory=MembershipParams)
    """The overlay: HyParView."""
    broadcast: BroadcastParams = field(default_factory=BroadcastParams)
    """The trees: Plumtree."""

    @classmethod
    def for_size(cls, nodes: int, *, near: int = 4) -> EpisubParams:
        """Parameters for topics of about `nodes` nodes, with `near` near links each (E01).

        Raises ValueError for fewer than 2 nodes.
        """
        return cls(membership=MembershipParams.for_size(nodes, near=near))

    def protected(self) -> EpisubParams:
        """The same with two parents for each message."""
        return replace(self, broadcast=replace(self.broadcast, parents=2))


_MAY_BE_ZERO = frozenset(
    {"random_links", "near_links", "rtt_min_gain", "join_ttl", "optimization_threshold",
     "source_trees", "piece_threshold",
     "piece_children", "rings"}
)  # fmt: skip
