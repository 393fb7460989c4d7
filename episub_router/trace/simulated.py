"""Events of simulated nodes, which are numbers, and so are their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import CARRIER, TYPED

TOPIC = "simulated"
"""The one topic of all simulated nodes."""

OUTSIDE = -1
"""The number of a publisher outside of the network."""


class Row(NamedTuple):
    """One event of docs/trace.md; columns that don't apply are None."""

    time: int
    """Nanoseconds since the start of the run."""
    event: str
    """Name of the submessage of `TraceEvent`."""
    peer: int
    """The node that it happened at, or `OUTSIDE`."""
    remote: int | None = None
    """The other node."""
    message: int | None = None
    hops: int | None = None
    size: int | None = None
    """Modelled bytes: of the message, of a sendRPC's RPC."""
    payload: int | None = None
    """Bytes of messages in the RPC."""
    control: str | None = None
    """Name of the RPC's control message."""
    messages: Sequence[int] | None = None
    """Messages that it names."""
    announced: Sequence[int] | None = None
    """Their hop counts."""
    state: str | None = None
    """Of node: start, leave, crash, hostile; neighbor: up, down; graft, prune: eager or lazy."""
    kind: str | None = None
    """Of a neighbour: near, random; of a node that starts: its region."""
    reason: str | None = None
    """Of neighbor and discard."""
    rtt: int | None = None
    """Nanoseconds."""


def peer_id(node: int) -> bytes:
    """An identity multihash, as libp2p makes them of short keys, of the node's name."""
    name = b"sim-outside" if node == OUTSIDE else b"sim-%d" % node
    return bytes((0, len(name))) + name


def message_id(message: int) -> bytes:
    return b"m%d" % message


def event_of(row: Row) -> TraceEvent:
    """The event that `row` stands for."""
    kind = row.event
    event = TraceEvent(
        type=TYPED.index(kind) if kind in TYPED else CARRIER,  # type: ignore[arg-type]
        peerID=peer_id(row.peer),
        timestamp=row.time,
    )
    _FILL[kind](getattr(event, kind), row)
    if kind in _PAYLOADS:
        event.payload.size = row.size or 0
        if row.hops is not None:
            event.payload.hops = row.hops
    elif kind == "sendRPC":
        _fill_frame(event.frame, row)
    elif row.state is not None and kind in ("graft", "prune"):
        event.tree.state = row.state
    return event


def header_of(fields: Mapping[str, Any]) -> TraceEvent:
    """The first event of a trace."""
    return TraceEvent(
        type=CARRIER,
        peerID=peer_id(OUTSIDE),
        timestamp=0,
        header=TraceEvent.TraceHeader(**fields),
    )


def report_of(written: int) -> TraceEvent:
    """The last one."""
    report = TraceEvent.TraceReport(written=written, dropped=0, failed=0, end=True, closed=True)
    return TraceEvent(type=CARRIER, peerID=peer_id(OUTSIDE), timestamp=0, report=report)


def _fill_message(out: Any, row: Row) -> None:
    out.messageID = message_id(row.message or 0)
    out.topic = TOPIC
    if row.remote is not None:
        out.receivedFrom = peer_id(row.remote)


def _fill_link(out: Any, row: Row) -> None:
    out.peerID = peer_id(_remote(row))
    out.topic = TOPIC


def _fill_stream(out: Any, row: Row) -> None:
    out.peerID = peer_id(_remote(row))


def _fill_topic(out: Any, row: Row) -> None:
    out.topic = TOPIC


def _fill_send(out: TraceEvent.SendRPC, row: Row) -> None:
    out.sendTo = peer_id(_remote(row))
    ids = [message_id(message) for message in row.messages or ()]
    if row.message is not None:
        out.meta.messages.add(messageID=message_id(row.message), topic=TOPIC)
    if row.control == "IHAVE":
        out.meta.control.ihave.add(topic=TOPIC, messageIDs=ids)
    elif row.control == "GRAFT":
        out.meta.control.graft.add(topic=TOPIC)
        if ids:
            out.meta.control.iwant.add(messageIDs=ids)
    elif row.control == "PRUNE":
        out.meta.control.prune.add(topic=TOPIC)
    elif row.control == "IWANT":
        out.meta.control.iwant.add(messageIDs=ids)
    elif row.control == "IDONTWANT":
        out.meta.control.idontwant.add(messageIDs=ids)


def _fill_frame(out: TraceEvent.FrameMeta, row: Row) -> None:
    out.size = row.size or 0
    out.payload = row.payload or 0
    if row.hops is not None:
        out.hops = row.hops
    if row.control is not None:
        out.control.append(row.control)
    out.ihaveHops.extend(row.announced or ())


def _fill_node(out: TraceEvent.NodeChange, row: Row) -> None:
    out.state = row.state or ""
    if row.kind is not None:
        out.region = row.kind


def _fill_neighbor(out: TraceEvent.NeighborChange, row: Row) -> None:
    _fill_link(out, row)
    out.up = row.state == "up"
    if row.kind is not None:
        out.kind = row.kind
    if row.reason is not None:
        out.reason = row.reason
    if row.rtt is not None:
        out.rtt = row.rtt


def _fill_rtt(out: TraceEvent.RttSample, row: Row) -> None:
    out.peerID = peer_id(_remote(row))
    if row.rtt is not None:
        out.rtt = row.rtt


def _fill_discard(out: TraceEvent.Discard, row: Row) -> None:
    out.topic = TOPIC
    out.reason = row.reason or ""
    if row.remote is not None:
        out.peerID = peer_id(row.remote)
    if row.message is not None:
        out.messageID = message_id(row.message)


def _remote(row: Row) -> int:
    return OUTSIDE if row.remote is None else row.remote


_PAYLOADS = ("publishMessage", "deliverMessage", "duplicateMessage")
_FILL: dict[str, Callable[[Any, Row], None]] = {
    "publishMessage": _fill_message,
    "deliverMessage": _fill_message,
    "duplicateMessage": _fill_message,
    "onNewOutboundStream": _fill_stream,
    "onClosedOutboundStream": _fill_stream,
    "sendRPC": _fill_send,
    "join": _fill_topic,
    "leave": _fill_topic,
    "graft": _fill_link,
    "prune": _fill_link,
    "node": _fill_node,
    "neighbor": _fill_neighbor,
    "rtt": _fill_rtt,
    "discard": _fill_discard,
}
