"""The events of one node, as its Pubsub and its router report them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.harmless import harmless
from episub_router.trace.kinds import CARRIER
from episub_router.trace.node.rpcs import MessageIds, describe, text
from episub_router.trace.tracer import Tracer
from episub_router.util.bounded import put_last

_NANOSECONDS = 1e9
_REMEMBERED = 4096
"""Messages whose hop counts are kept, until all their copies have come."""


class NodeTrace:
    """Turns what happens at the node `me` into events of `tracer`. Its methods never raise.

    `id_of` gives the id of a pubsub message.
    """

    def __init__(self, tracer: Tracer, me: ID, router: str, id_of: MessageIds) -> None:
        self._tracer = tracer
        self._me = me.to_bytes()
        self._id_of = id_of
        self._hops: dict[bytes, dict[bytes, int]] = {}
        """By message and by the peer that a copy came from."""
        self._mesh: dict[str, dict[bytes, None]] = {}
        self._mesh_now: Callable[[], Mapping[str, Iterable[ID]]] | None = None
        tracer.belongs_to(self._me, router)
        self.lived("start")

    def fail(self, error: Exception) -> None:
        """Count an event that could not be made."""
        self._tracer.fail(error)

    # The node

    @harmless
    def lived(self, state: str) -> None:
        """`start`, `leave` or `crash`."""
        self._own(node=TraceEvent.NodeChange(state=state))

    @harmless
    def joined(self, topic: str) -> None:
        self._emit(TraceEvent.JOIN, join=TraceEvent.Join(topic=topic))

    @harmless
    def left(self, topic: str) -> None:
        self._emit(TraceEvent.LEAVE, leave=TraceEvent.Leave(topic=topic))

    @harmless
    def discarded(
        self, reason: str, peer: bytes | None = None, topic: str | None = None, count: int = 1
    ) -> None:
        """Something, from `peer` where it is known, was not acted on."""
        discard = TraceEvent.Discard(reason=reason, peerID=peer, topic=topic)
        if count != 1:
            discard.count = count
        self._own(discard=discard)

    # Messages

    @harmless
    def published(self, message: rpc_pb2.Message) -> None:
        message_id, size = self._id_of(message), message.ByteSize()
        for topic in _topics(message):
            self._emit(
                TraceEvent.PUBLISH_MESSAGE,
                publishMessage=TraceEvent.PublishMessage(messageID=message_id, topic=topic),
                payload=TraceEvent.PayloadMeta(hops=0, size=size),
            )

    @harmless
    def delivered(self, message: rpc_pb2.Message, forwarder: ID) -> None:
        self._came(TraceEvent.DELIVER_MESSAGE, "deliverMessage", message, forwarder)

    @harmless
    def repeated(self, message: rpc_pb2.Message, forwarder: ID) -> None:
        """A further copy came."""
        self._came(TraceEvent.DUPLICATE_MESSAGE, "duplicateMessage", message, forwarder)

    @harmless
    def rejected(self, message: rpc_pb2.Message, forwarder: ID, reason: str) -> None:
        """`reason` in go-libp2p-pubsub's words."""
        self._came(TraceEvent.REJECT_MESSAGE, "rejectMessage", message, forwarder, reason=reason)

    # Streams and RPCs

    @harmless
    def stream_opened(self, peer: ID, protocol: str) -> None:
        self._emit(
            TraceEvent.ON_NEW_OUTBOUND_STREAM,
            onNewOutboundStream=TraceEvent.OnNewOutboundStream(
                peerID=peer.to_bytes(), proto=protocol
            ),
        )

    @harmless
    def stream_closed(self, peer: ID) -> None:
        self._emit(
            TraceEvent.ON_CLOSED_OUTBOUND_STREAM,
            onClosedOutboundStream=TraceEvent.OnClosedOutboundStream(peerID=peer.to_bytes()),
        )

    @harmless
    def rpc_received(self, rpc: rpc_pb2.RPC, data: bytes, sender: ID) -> None:
        """`data` are the bytes of `rpc`."""
        meta, frame = describe(rpc, data, self._id_of)
        source = sender.to_bytes()
        if frame.HasField("hops"):
            for message in meta.messages:
                hops = self._hops.get(message.messageID, {})
                hops[source] = frame.hops
                put_last(self._hops, message.messageID, hops, _REMEMBERED)
        self._emit(
            TraceEvent.RECV_RPC,
            recvRPC=TraceEvent.RecvRPC(receivedFrom=source, meta=meta),
            frame=frame,
        )

    @harmless
    def rpc_sent(self, rpc: rpc_pb2.RPC, receiver: ID) -> None:
        meta, frame = describe(rpc, rpc.SerializeToString(), self._id_of)
        self._emit(
            TraceEvent.SEND_RPC,
            sendRPC=TraceEvent.SendRPC(sendTo=receiver.to_bytes(), meta=meta),
            frame=frame,
        )
        if meta.control.graft or meta.control.prune:
            self.look_at_mesh()

    @harmless
    def rpc_dropped(self, rpc: rpc_pb2.RPC, receiver: ID) -> None:
        """There was no room for it."""
        meta, frame = describe(rpc, rpc.SerializeToString(), self._id_of)
        self._emit(
            TraceEvent.DROP_RPC,
            dropRPC=TraceEvent.DropRPC(sendTo=receiver.to_bytes(), meta=meta),
            frame=frame,
        )

    @harmless
    def payload_dropped(self, message_id: Any, topic: str, size: int, receiver: bytes) -> None:
        """There was no room for the payload message `message_id`, which had no RPC yet."""
        message = TraceEvent.MessageMeta(messageID=message_id, topic=topic)
        self._emit(
            TraceEvent.DROP_RPC,
            dropRPC=TraceEvent.DropRPC(
                sendTo=receiver, meta=TraceEvent.RPCMeta(messages=[message])
            ),
            frame=TraceEvent.FrameMeta(payload=size, topic=topic),
        )

    # Links

    @harmless
    def neighbor_up(self, peer: bytes, topic: str, kind: str, rtt: float | None) -> None:
        """`rtt` in seconds."""
        self._own(
            neighbor=TraceEvent.NeighborChange(
                peerID=peer, topic=topic, up=True, kind=kind, rtt=_nanoseconds(rtt)
            )
        )

    @harmless
    def neighbor_down(self, peer: bytes, topic: str, reason: str) -> None:
        self._own(
            neighbor=TraceEvent.NeighborChange(peerID=peer, topic=topic, up=False, reason=reason)
        )

    @harmless
    def became(self, peer: bytes, topic: str, state: str) -> None:
        """The link to `peer` is `eager`, `lazy` or `none` from now on."""
        tree = TraceEvent.TreeMeta(state=state)
        if state == "eager":
            graft = TraceEvent.Graft(peerID=peer, topic=topic)
            self._emit(TraceEvent.GRAFT, graft=graft, tree=tree)
        else:
            prune = TraceEvent.Prune(peerID=peer, topic=topic)
            self._emit(TraceEvent.PRUNE, prune=prune, tree=tree)

    def watch_mesh(self, mesh: Callable[[], Mapping[str, Iterable[ID]]]) -> None:
        """Have `look_at_mesh` compare the links of a router that doesn't report their changes,
        by topic."""
        self._mesh_now = mesh

    @harmless
    def look_at_mesh(self) -> None:
        """The mesh may have changed."""
        if self._mesh_now is None:
            return
        mesh = self._mesh_now()
        for topic in list(self._mesh):
            if topic not in mesh:
                for peer in self._mesh.pop(topic):
                    self._pruned(peer, topic)
        for topic, peers in mesh.items():
            known = self._mesh.setdefault(topic, {})
            present = {peer.to_bytes(): None for peer in peers}
            for peer in [peer for peer in known if peer not in present]:
                del known[peer]
                self._pruned(peer, topic)
            for peer in [peer for peer in present if peer not in known]:
                known[peer] = None
                self._emit(TraceEvent.GRAFT, graft=TraceEvent.Graft(peerID=peer, topic=topic))

    def _pruned(self, peer: bytes, topic: str) -> None:
        self._emit(TraceEvent.PRUNE, prune=TraceEvent.Prune(peerID=peer, topic=topic))

    @harmless
    def round_trip(self, peer: bytes, rtt: float | None) -> None:
        """`rtt` in seconds; None: it failed."""
        self._own(rtt=TraceEvent.RttSample(peerID=peer, rtt=_nanoseconds(rtt)))

    @harmless
    def sds(self, event: TraceEvent.Sds) -> None:
        """Something happened in an SDS channel."""
        self._own(sds=event)

    def _came(
        self,
        type: TraceEvent.Type.ValueType,
        kind: str,
        message: rpc_pb2.Message,
        forwarder: ID,
        **more: str,
    ) -> None:
        """A copy of `message` came. `kind` names the submessage that says what became of it."""
        message_id, source = self._id_of(message), forwarder.to_bytes()
        hops = 0 if source == self._me else self._hops.get(message_id, {}).get(source)
        payload = TraceEvent.PayloadMeta(hops=hops, size=message.ByteSize())
        for topic in _topics(message):
            fate = {"messageID": message_id, "topic": topic, "receivedFrom": source, **more}
            self._emit(type, payload=payload, **{kind: fate})

    def _own(self, **content: Any) -> None:
        self._emit(CARRIER, **content)

    def _emit(self, type: TraceEvent.Type.ValueType, **content: Any) -> None:
        self._tracer.emit(
            TraceEvent(type=type, peerID=self._me, timestamp=time.time_ns(), **content)
        )


def _topics(message: rpc_pb2.Message) -> list[str]:
    return [text(topic) for topic in message.topicIDs]


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _NANOSECONDS)
