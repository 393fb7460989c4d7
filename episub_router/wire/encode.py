"""From the core's messages to gossipsub's RPC."""

from __future__ import annotations

from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol.messages import Gossip
from episub_router.wire.codec import Records, write_message
from episub_router.wire.frame import Frame
from episub_router.wire.limits import DEFAULT_LIMITS, WireLimits
from episub_router.wire.source import source_bytes


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
            out.control.add(**write_message(message, records))
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


def _write_header(out: pb.Gossip, message: Gossip) -> None:
    out.hops = message.hops
    if message.tree is not None:
        if message.tree == message.source:
            out.own_tree = True
        else:
            out.along = source_bytes(message.tree)


def _at_most(bound: int, records: Records) -> Records:
    # The receiver would drop the rest, and may know those peers anyway.
    left = bound

    def bounded(peer: bytes) -> bytes | None:
        nonlocal left
        record = records(peer) if left > 0 else None
        left -= record is not None
        return record

    return bounded
