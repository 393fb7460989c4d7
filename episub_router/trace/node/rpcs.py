"""What was in an RPC, as Go's RPCMeta and as Episub sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2
from episub_router.pb.trace_pb2 import TraceEvent

MessageIds = Callable[[rpc_pb2.Message], bytes]

_EPISUB_TAG = episub_pb2.EpisubRpc(episub=episub_pb2.EpisubFrame()).SerializeToString()[:4]


def describe(
    rpc: rpc_pb2.RPC, data: bytes, id_of: MessageIds
) -> tuple[TraceEvent.RPCMeta, TraceEvent.FrameMeta]:
    """`data` are the bytes of `rpc`."""
    meta = TraceEvent.RPCMeta(
        messages=[
            TraceEvent.MessageMeta(messageID=id_of(message), topic=first_topic(message))
            for message in rpc.publish
        ],
        subscription=[
            TraceEvent.SubMeta(subscribe=option.subscribe, topic=text(option.topicid))
            for option in rpc.subscriptions
        ],
    )
    if rpc.HasField("control") and rpc.control.ByteSize():
        _describe_control(rpc.control, meta.control)
    frame = TraceEvent.FrameMeta(
        size=len(data), payload=sum(message.ByteSize() for message in rpc.publish)
    )
    if _EPISUB_TAG in data:
        container = episub_pb2.EpisubRpc.FromString(data)
        if container.HasField("episub"):
            _describe_frame(container.episub, meta, frame)
    return meta, frame


def text(value: str | bytes) -> str:
    """A string field of an RPC, which protobuf gives as bytes where it isn't UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def first_topic(message: rpc_pb2.Message) -> str:
    """Go's messages have one topic, py-libp2p's may have more."""
    return text(message.topicIDs[0]) if message.topicIDs else ""


def _describe_control(control: rpc_pb2.ControlMessage, meta: TraceEvent.ControlMeta) -> None:
    for ihave in control.ihave:
        meta.ihave.add(topic=text(ihave.topicID), messageIDs=_ids(ihave.messageIDs))
    for iwant in control.iwant:
        meta.iwant.add(messageIDs=_ids(iwant.messageIDs))
    for graft in control.graft:
        meta.graft.add(topic=text(graft.topicID))
    for prune in control.prune:
        meta.prune.add(topic=text(prune.topicID), peers=[peer.peerID for peer in prune.peers])
    for unwanted in control.idontwant:
        meta.idontwant.add(messageIDs=_ids(unwanted.messageIDs))


def _ids(ids: Any) -> list[bytes]:
    return [id.encode() if isinstance(id, str) else id for id in ids]


def _describe_frame(
    episub: episub_pb2.EpisubFrame, meta: TraceEvent.RPCMeta, frame: TraceEvent.FrameMeta
) -> None:
    topic = frame.topic = text(episub.topic)
    frame.seq = episub.seq
    if episub.HasField("gossip"):
        frame.hops = episub.gossip.hops
    for control in episub.control:
        name = control.WhichOneof("message")
        if name is None:
            continue
        frame.control.append(name.replace("_", "").upper())
        if name == "ihave":
            summary = control.ihave.summary
            meta.control.ihave.add(topic=topic, messageIDs=[line.id for line in summary])
            frame.ihaveHops.extend(line.hops for line in summary)
        elif name == "graft":
            meta.control.graft.add(topic=topic)
            if control.graft.ids:
                meta.control.iwant.add(messageIDs=control.graft.ids)
        elif name == "prune":
            meta.control.prune.add(topic=topic)
        elif name == "neighbor":
            role = episub_pb2.Neighbor.Role.Name(control.neighbor.role)
            frame.control[-1] = f"NEIGHBOR-{role}"
