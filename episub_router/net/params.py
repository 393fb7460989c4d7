"""Every parameter of the router around the core: unit, default, source of the default."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.util.params import check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterParams:
    """Parameters of connections, queues and fanout. Raises ValueError where one makes no sense."""

    keep_auto_connector: bool = param(
        False, "switch", "ours: py-libp2p's auto-connector dials again what the overlay let go"
    )

    dial_timeout: float = param(
        5.0,
        "s",
        "ours: py-libp2p's floor is 0.25 s, its three retries take 0.7 s, then a slow link; this "
        "and the time-outs of streams and pings last longer while the event loop is slow, up to "
        "six times",
    )
    dial_concurrency: int = param(
        4,
        "dials",
        "spec: C_rand = 4; more at once only slow each other down. Two to begin with, and while "
        "the event loop is slow",
    )
    dial_addresses: int = param(3, "addresses", "ours: tried in turn within one dial_timeout")
    max_dials: int = param(256, "peers", "ours: four topics' worth of requests under way")
    stream_timeout: float = param(
        10.0, "s", "py-libp2p: a stream's negotiation times out after 10 s; a busy host needs them"
    )
    dial_backoff: float = param(2.0, "s", "ours: doubles with each failure in a row")
    dial_backoff_max: float = param(60.0, "s", "py-libp2p: a failed peer is blocked for 60 s")
    backoff_memory: int = param(1024, "peers", "ours: bound of the table of failed dials")

    release_grace: float = param(
        15.0,
        "s",
        "measured: peers met while joining are asked again; a dial costs 40 ms",
    )

    idle_timeout: float = param(
        60.0, "s", "ours: four link checks; what the router dialled and nobody needs is closed"
    )

    backlog_frames: int = param(
        256, "frames", "ours: eight of Pubsub's queues of 32, per peer and kind of frame"
    )
    backlog_bytes: int = param(4 * 2**20, "bytes", "ours: four RPCs of the largest size, per peer")
    backlog_poll: float = param(
        0.01, "s", "ours: Pubsub's queue can't be awaited; 32 frames per 10 ms exceed a core's rate"
    )

    ping_timeout: float = param(2.0, "s", "ours: above any RTT that is worth knowing")
    ping_concurrency: int = param(
        4, "streams", "ours: RTTs measured side by side disturb each other"
    )

    ping_rate: float = param(
        4.0, "pings/s", "ours: over all topics; a ping costs 5 ms of CPU, so 2 % of a core"
    )
    ping_queue: int = param(
        64, "peers", "ours: measured or waiting for it; requests beyond fail at once"
    )
    ping_pause: float = param(
        10.0,
        "s",
        "measured: while 50 hosts in one process join, every ping times out and takes CPU from the "
        "dials; rest after one that found the event loop behind",
    )

    fanout_degree: int = param(4, "peers", "spec: C_rand = 4, which is what a joining node gets")
    fanout_ttl: float = param(60.0, "s", "gossipsub: fanout_ttl 60 s")
    fanout_topics: int = param(64, "topics", "ours: topics published to without subscribing")
    replay_window: float = param(
        10.0, "s", "ours: a dial and a pubsub stream together take at most this"
    )
    replay_messages: int = param(32, "messages", "gossipsub: a late subscriber is handed 32")

    prefix_v4: int = param(24, "bits", "py-libp2p: SUBNET_PREFIX_LEN_V4; what counts as one party")
    prefix_v6: int = param(48, "bits", "py-libp2p: SUBNET_PREFIX_LEN_V6")

    leave_max_age: float = param(
        300.0, "s", "ours: how far the clocks of a leaving node and ours may differ"
    )
    leave_memory: int = param(4096, "leaves", "ours: bound of the table that stops repetition")

    discovery_retry: float = param(
        1.0, "s", "ours: pause after the first look-up in a discovery; doubles each time"
    )
    discovery_interval: float = param(
        300.0, "s", "ours: as contact_interval; the longest pause between two look-ups"
    )
    discovery_timeout: float = param(30.0, "s", "py-libp2p: its DHT look-ups end after 30 s")
    discovery_answer: int = param(1000, "peers", "ours: more of one answer are not looked at")
    discovery_contacts: int = param(
        16, "peers", "ours: as nodes_size; one answer fills a quarter of the table of contacts"
    )
    discovered_peers: int = param(256, "peers", "ours: found peers whose addresses are kept")
    provide_interval: float = param(
        3600.0, "s", "ours: a DHT node that came back without its records has ours in an hour"
    )

    left_topics: int = param(8, "topics", "ours: seen ids kept for topics that may be joined again")

    def __post_init__(self) -> None:
        check_numbers(self)
