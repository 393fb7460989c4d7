"""The events of one node, as its Pubsub and its router report them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.harmless import harmless
from episub_router.trace.kinds import made
from episub_router.trace.links import changes
from episub_router.trace.node.rpcs import MessageIds, describe, text
from episub_router.trace.tracer import Tracer
from episub_router.util.bounded import put_last

_REMEMBERED = 4096
"""Messages whose hop counts are kept, until all their copies have come."""
_NOTHING: Mapping[str, Any] = {}


@harmless
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

    def lived(self, state: str) -> None:
        """`start`, `leave` or `crash`."""
        self._emit("node", state=state)

    def joined(self, topic: str) -> None:
        self._emit("join", topic=topic)

    def left(self, topic: str) -> None:
        self._emit("leave", topic=topic)

    def discarded(
        self, reason: str, peer: bytes | None = None, topic: str | None = None, count: int = 1
    ) -> None:
        """Something, from `peer` where it is known, was not acted on."""
        several = count if count != 1 else None
        self._emit("discard", reason=reason, peerID=peer, topic=topic, count=several)

    # Messages

    def published(self, message: rpc_pb2.Message) -> None:
        self._came("publishMessage", message, None)

    def delivered(self, message: rpc_pb2.Message, forwarder: ID) -> None:
        self._came("deliverMessage", message, forwarder)

    def repeated(self, message: rpc_pb2.Message, forwarder: ID) -> None:
        """A further copy came."""
        self._came("duplicateMessage", message, forwarder)

    def rejected(self, message: rpc_pb2.Message, forwarder: ID, reason: str) -> None:
        """`reason` in go-libp2p-pubsub's words."""
        self._came("rejectMessage", message, forwarder, reason=reason)

    # Streams and RPCs

    def stream_opened(self, peer: ID, protocol: str) -> None:
        self._emit("onNewOutboundStream", peerID=peer.to_bytes(), proto=protocol)

    def stream_closed(self, peer: ID) -> None:
        self._emit("onClosedOutboundStream", peerID=peer.to_bytes())

    def rpc_received(self, rpc: rpc_pb2.RPC, data: bytes, sender: ID) -> None:
        """`data` are the bytes of `rpc`."""
        meta, frame = describe(rpc, data, self._id_of)
        source = sender.to_bytes()
        if frame.HasField("hops"):
            for message in meta.messages:
                hops = self._hops.get(message.messageID, {})
                hops[source] = frame.hops
                put_last(self._hops, message.messageID, hops, _REMEMBERED)
        self._emit("recvRPC", {"frame": frame}, receivedFrom=source, meta=meta)

    def rpc_sent(self, rpc: rpc_pb2.RPC, receiver: ID) -> None:
        meta, frame = describe(rpc, rpc.SerializeToString(), self._id_of)
        self._emit("sendRPC", {"frame": frame}, sendTo=receiver.to_bytes(), meta=meta)
        if meta.control.graft or meta.control.prune:
            self.look_at_mesh()

    def rpc_dropped(self, rpc: rpc_pb2.RPC, receiver: ID) -> None:
        """There was no room for it."""
        meta, frame = describe(rpc, rpc.SerializeToString(), self._id_of)
        self._emit("dropRPC", {"frame": frame}, sendTo=receiver.to_bytes(), meta=meta)

    def payload_dropped(self, message_id: Any, topic: str, size: int, receiver: bytes) -> None:
        """There was no room for the payload message `message_id`, which had no RPC yet."""
        meta = {"messages": [{"messageID": message_id, "topic": topic}]}
        frame = {"payload": size, "topic": topic}
        self._emit("dropRPC", {"frame": frame}, sendTo=receiver, meta=meta)

    # Links

    def neighbor_up(self, peer: bytes, topic: str, kind: str, rtt: float | None) -> None:
        """`rtt` in seconds."""
        took = _nanoseconds(rtt)
        self._emit("neighbor", peerID=peer, topic=topic, up=True, kind=kind, rtt=took)

    def neighbor_down(self, peer: bytes, topic: str, reason: str) -> None:
        self._emit("neighbor", peerID=peer, topic=topic, up=False, reason=reason)

    def became(self, peer: bytes, topic: str, state: str) -> None:
        """The link to `peer` is `eager`, `lazy` or `none` from now on."""
        kind = "graft" if state == "eager" else "prune"
        self._emit(kind, {"tree": {"state": state}}, peerID=peer, topic=topic)

    def watch_mesh(self, mesh: Callable[[], Mapping[str, Iterable[ID]]]) -> None:
        """Have `look_at_mesh` compare the links of a router that doesn't report their changes,
        by topic."""
        self._mesh_now = mesh

    def look_at_mesh(self) -> None:
        """The mesh may have changed."""
        if self._mesh_now is None:
            return
        mesh = self._mesh_now()
        for topic in (*(topic for topic in self._mesh if topic not in mesh), *mesh):
            known = self._mesh.pop(topic, {})
            present = {peer.to_bytes(): None for peer in mesh.get(topic, ())}
            if topic in mesh:
                self._mesh[topic] = present
            for peer, state in changes(known, present, ()):
                self._emit("graft" if state == "eager" else "prune", peerID=peer, topic=topic)

    def round_trip(self, peer: bytes, rtt: float | None) -> None:
        """`rtt` in seconds; None: it failed."""
        self._emit("rtt", peerID=peer, rtt=_nanoseconds(rtt))

    def sds(self, event: TraceEvent.Sds) -> None:
        """Something happened in an SDS channel."""
        self._tracer.emit(made("sds", self._me, time.time_ns(), event))

    def _came(self, kind: str, message: rpc_pb2.Message, forwarder: ID | None, **more: Any) -> None:
        """`message` came, if it isn't of this node, and an event of `kind` says what became of
        it."""
        message_id = self._id_of(message)
        hops: int | None = 0
        if forwarder is not None:
            source = more["receivedFrom"] = forwarder.to_bytes()
            hops = 0 if source == self._me else self._hops.get(message_id, {}).get(source)
        beside = {"payload": {"hops": hops, "size": message.ByteSize()}}
        for topic in message.topicIDs:
            self._emit(kind, beside, messageID=message_id, topic=text(topic), **more)

    def _emit(self, kind: str, beside: Mapping[str, Any] = _NOTHING, /, **content: Any) -> None:
        self._tracer.emit(made(kind, self._me, time.time_ns(), content, **beside))


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)
