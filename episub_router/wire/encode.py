"""From the core's messages to gossipsub's RPC."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol.messages import (
    Disconnect,
    ForwardJoin,
    GetNodes,
    GetTopics,
    Gossip,
    Graft,
    IHave,
    Join,
    Leave,
    Message,
    Neighbor,
    Nodes,
    Prune,
    Root,
    Shuffle,
    ShuffleReply,
    Topics,
)
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceOffer,
    PiecePrune,
)
from episub_router.wire.frame import Frame
from episub_router.wire.limits import DEFAULT_LIMITS, WireLimits
from episub_router.wire.piece_codec import write_piece_message
from episub_router.wire.source import id_bytes, source_bytes

Records: TypeAlias = Callable[[bytes], bytes | None]
"""The signed peer record (envelope bytes) of a peer id; None when there is none."""

_MAX_COST = 2**32 - 1
"""Microseconds; what the field holds."""


def encode_frame(
    frame: Frame, records: Records, limits: WireLimits = DEFAULT_LIMITS
) -> rpc_pb2.RPC:
    """The RPC that carries `frame`, with the Gossip's payload in `publish`.

    At most `limits.max_records` peers get their record sent along. Raises ValueError for a
    frame that no receiver would use: a topic or a number of messages beyond `limits`, a
    sequence id out of range, or a second Gossip. Raises TypeError for peers or message ids
    that aren't bytes.
    """
    if not 1 <= len(frame.topic.encode()) <= limits.max_topic_bytes:
        raise ValueError(f"the topic must take 1 to {limits.max_topic_bytes} bytes")
    if not 1 <= frame.seq < 2**64:
        raise ValueError(f"a sequence id must be in [1, 2^64): {frame.seq}")
    rpc = rpc_pb2.RPC()
    # Pubsub shows an RPC to its router only when `control` is there, be it empty.
    rpc.control.SetInParent()
    container = pb.EpisubRpc()
    out = container.episub
    out.topic = frame.topic
    out.seq = frame.seq
    records = _at_most(limits.max_records, records)
    for message in frame.messages:
        if not isinstance(message, Gossip):
            _write(out.control.add(), message, records)
        elif out.HasField("gossip"):
            raise ValueError("a frame carries at most one Gossip")
        else:
            if not isinstance(message.payload, rpc_pb2.Message):
                raise TypeError(f"a payload must be a pubsub Message: {type(message.payload)}")
            _write_header(out.gossip, message)
            rpc.publish.append(message.payload)
    if len(out.control) > limits.max_messages:
        raise ValueError(f"a frame carries at most {limits.max_messages} control messages")
    rpc.MergeFromString(container.SerializeToString())
    return rpc


def check_size(rpc: rpc_pb2.RPC, limits: WireLimits = DEFAULT_LIMITS) -> bool:
    """Whether `rpc` is small enough for the receiver's pubsub to read it."""
    return rpc.ByteSize() <= limits.max_rpc_bytes


def _write_header(out: pb.Gossip, message: Gossip) -> None:
    out.hops = message.hops
    if message.tree is not None:
        if message.tree == message.source:
            out.own_tree = True
        else:
            out.along = source_bytes(message.tree)


def _write(out: pb.Control, message: Message, records: Records) -> None:
    match message:
        case IHave(summary):
            # SetInParent makes the choice stick when the message is empty.
            out.ihave.SetInParent()
            for line in summary:
                out.ihave.summary.add(id=id_bytes(line.id), hops=line.hops)
        case Graft(ids, sources, standby):
            out.graft.SetInParent()
            out.graft.ids.extend(map(id_bytes, ids))
            out.graft.sources.extend(map(source_bytes, sources))
            out.graft.standby.extend(map(source_bytes, standby))
        case Prune(sources, standby):
            out.prune.SetInParent()
            out.prune.sources.extend(map(source_bytes, sources))
            out.prune.standby.extend(map(source_bytes, standby))
        case Root(roots, requests):
            out.root.SetInParent()
            for root in roots:
                out.root.roots.add(
                    source=source_bytes(root.source),
                    round=root.round,
                    cost=min(round(root.cost * 1e6), _MAX_COST),
                    proof=root.proof,
                )
            for request in requests:
                out.root.requests.add(source=source_bytes(request.source), round=request.round)
        case GetNodes(count):
            out.get_nodes.SetInParent()
            if count:
                out.get_nodes.count = count
        case Nodes(peers, ttl):
            out.nodes.ttl = ttl
            out.nodes.peers.extend(_infos(peers, records))
        case GetTopics():
            out.get_topics.SetInParent()
        case Topics(topics):
            out.topics.SetInParent()
            out.topics.topics.extend(topics)
        case Join(peer, ttl):
            out.join.ttl = ttl
            out.join.peer.CopyFrom(_info(peer, records))
        case ForwardJoin(peer, ttl):
            out.forward_join.ttl = ttl
            out.forward_join.peer.CopyFrom(_info(peer, records))
        case Neighbor(role, links, kind, peers, random_links, numbers_only):
            # The enums of the core have the numbers of those on the wire.
            out.neighbor.role = pb.Neighbor.Role.ValueType(role)
            out.neighbor.links = links
            out.neighbor.kind = pb.Neighbor.Kind.ValueType(kind)
            out.neighbor.peers.extend(_infos(peers, records))
            out.neighbor.random_links = random_links
            if numbers_only:
                out.neighbor.numbers_only = True
        case Disconnect(alive):
            out.disconnect.alive = alive
        case Leave(source, ttl, proof):
            out.leave.source = id_bytes(source)
            out.leave.ttl = ttl
            out.leave.proof = proof
        case Shuffle(peer, ttl, offered, peers):
            out.shuffle.peer.CopyFrom(_info(peer, records))
            out.shuffle.peers.extend(_infos(peers, records))
            out.shuffle.ttl = ttl
            if offered:
                out.shuffle.offered = offered
        case ShuffleReply(peers):
            out.shuffle_reply.SetInParent()
            out.shuffle_reply.peers.extend(_infos(peers, records))
        case Piece() | PieceAnnounce() | PieceOffer() | PieceGraft() | PiecePrune():
            write_piece_message(out, message)
        case _:
            raise TypeError(f"not a control message: {message!r}")


def _at_most(bound: int, records: Records) -> Records:
    # The receiver would drop the rest, and may know those peers anyway.
    left = bound

    def bounded(peer: bytes) -> bytes | None:
        nonlocal left
        record = records(peer) if left > 0 else None
        left -= record is not None
        return record

    return bounded


def _infos(peers: Iterable[object], records: Records) -> Iterable[pb.PeerInfo]:
    return (_info(peer, records) for peer in peers)


def _info(peer: object, records: Records) -> pb.PeerInfo:
    peer_id = id_bytes(peer)
    return pb.PeerInfo(peerID=peer_id, signedPeerRecord=records(peer_id))
