"""Every parameter of the router around the core: unit, default, source of the default."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.protocol.pieces.cutting import MAX_SIZE
from episub_router.util.params import check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterParams:
    """Parameters of connections, queues and fanout. Raises ValueError where one makes no sense."""

    keep_auto_connector: bool = param(
        False, "switch", "chosen: py-libp2p's auto-connector dials again what the overlay let go"
    )
    """Whether py-libp2p goes on connecting to every peer whose address it learns."""
    silence_timeout: float = param(
        7.0, "s", "chosen: within 10 s it shows that a neighbour is cut off"
    )
    """How long a peer's TCP may acknowledge nothing of what was sent before its connection counts
    as lost, where the system can tell (Linux: TCP_USER_TIMEOUT); of all connections of the host."""
    dial_timeout: float = param(
        5.0,
        "s",
        "chosen: py-libp2p's floor is 0.25 s, its three retries take 0.7 s, then a slow link",
    )
    """Time for a dial, over all addresses; while the event loop is slow up to six times as long,
    as for streams and pings."""
    release_grace: float = param(
        15.0, "s", "measured: peers met while joining are asked again; a dial costs 50 ms"
    )
    """Time until a connection that the router made is closed once no topic needs it."""
    idle_timeout: float = param(60.0, "s", "chosen: four link checks")
    """Time until a connection that the router made, and nothing uses, is looked at for closing."""
    backlog_frames: int = param(256, "frames", "chosen: eight of Pubsub's queues of 32")
    """Control frames that wait behind Pubsub's queue for one peer; of payloads 16 times as many."""
    backlog_bytes: int = param(4 * 2**20, "bytes", "chosen: four RPCs of the largest size")
    """Payload bytes that wait for one peer."""
    stall_timeout: float = param(
        5.0, "s", "chosen: silence that a publisher can live with; TCP notices after minutes"
    )
    """How long a peer may take nothing from its queue before its backlog is dropped and it counts
    as lost, and how long a publisher waits for room at most."""
    publish_timeout: float = param(
        60.0,
        "s",
        "chosen: enough for a neighbour that is behind, and for one that stalls to go",
    )
    """How long `ResilientPubsub.publish` waits for room before it raises `PublishTimeout`."""
    max_message_size: int = param(16 * 2**20, "bytes", "chosen: the largest blocks")
    """Largest message in pieces, its signature included, that is published and taken; a whole one
    has to fit an RPC (`Pubsub.max_inbound_rpc_size`, 1 MiB)."""

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.max_message_size > MAX_SIZE:
            raise ValueError(
                f"max_message_size must be at most {MAX_SIZE}: {self.max_message_size}"
            )
