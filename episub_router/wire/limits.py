"""What a frame may hold at most. Both ends apply the same limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from libp2p.pubsub.rpc_queue import DefaultMaxMessageSize

from episub_router.protocol.messages import MAX_HOPS, MAX_IDS
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import MAX_PIECES, MAX_WANTS
from episub_router.protocol.pieces.cutting import LARGEST_PIECE
from episub_router.util.params import param
from episub_router.wire.keys import MAX_KEY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """Bounds on everything in a frame that a remote peer chooses.

    They keep the work and the memory that one frame can cost within bounds; the core relies on
    them, and checks none again.
    """

    max_rpc_bytes: int = param(DefaultMaxMessageSize, "bytes", "py-libp2p: DefaultMaxMessageSize")
    max_topic_bytes: int = param(1024, "bytes of UTF-8", "chosen: pubsub itself has no bound")
    max_message_id_bytes: int = param(
        256, "bytes", "chosen: from + seqno takes at most 50, custom id functions get room"
    )
    max_messages: int = param(64, "messages", "chosen: a peer is sent a few messages at a time")
    max_peers: int = param(64, "peers", "chosen: four NODES answers of gossipsub's PX size, 16")
    max_records: int = param(
        32, "records", "chosen: their signatures take 2 ms (Ed25519) to 20 ms (RSA-4096) to check"
    )
    max_record_bytes: int = param(
        4096, "bytes", "chosen: an RSA-4096 key, its signature and some 40 addresses"
    )
    max_proof_bytes: int = param(
        2560, "bytes", "chosen: an RSA-4096 key, its signature and the longest topic"
    )
    max_ids: int = param(
        MAX_IDS, "ids", "chosen: as protocol.messages.MAX_IDS; at most 1 ms of work per message"
    )
    max_sources: int = param(
        MAX_IDS, "sources", "chosen: 64 sources of a topic may have a tree; as max_ids"
    )
    max_topics: int = param(128, "topics", "chosen: topics that one asker may know of")
    max_ttl: int = param(16, "hops", "chosen: over twice HyParView's longest walk, 6")
    max_hops: int = param(MAX_HOPS, "hops", "chosen: as protocol.messages.MAX_HOPS")
    max_links: int = param(255, "links", "chosen: far above any active view")
    max_pieces: int = param(MAX_PIECES, "pieces", "chosen: as protocol.piece_messages.MAX_PIECES")
    max_piece_bytes: int = param(LARGEST_PIECE, "bytes", "chosen: as pieces.cutting.LARGEST_PIECE")
    max_wants: int = param(MAX_WANTS, "messages", "chosen: those that can be under way")
    max_seqno_bytes: int = param(64, "bytes", "chosen: pubsub's specification has 8")
    max_key_bytes: int = param(MAX_KEY_BYTES, "bytes", "chosen: an RSA key of 4,096 bits takes 558")
    max_signature_bytes: int = param(512, "bytes", "chosen: what an RSA key of 4,096 bits makes")

    def __post_init__(self) -> None:
        for spec in fields(self):
            if getattr(self, spec.name) < 1:
                raise ValueError(f"{spec.name} must be at least 1: {getattr(self, spec.name)}")


DEFAULT_LIMITS = WireLimits()


def check_topics(topics: Iterable[str], limits: WireLimits = DEFAULT_LIMITS) -> None:
    """Raises ValueError for a topic that no frame can carry."""
    for topic in topics:
        size = len(topic.encode())
        if not 1 <= size <= limits.max_topic_bytes:
            raise ValueError(
                f"a topic must take 1 to {limits.max_topic_bytes} bytes of UTF-8, not {size}"
            )


def check_params(params: EpisubParams) -> None:
    """Make sure that a node with `params` sends nothing that other nodes would drop.

    Raises ValueError that names the first parameter above its limit.
    """
    membership, limits = params.membership, DEFAULT_LIMITS
    for name, value, limit in (
        ("join_ttl", membership.join_ttl, limits.max_ttl),
        ("active_bound", membership.active_bound, min(limits.max_peers, limits.max_links)),
    ):
        if value > limit:
            raise ValueError(f"{name} must be at most {limit}, the bound on the wire: {value}")
