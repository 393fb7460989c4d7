"""Events of simulated nodes, which are numbers, and so are their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import OWN, TYPED, made

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
    remote = None if row.remote is None else peer_id(row.remote)
    message = None if row.message is None else message_id(row.message)
    said: dict[str, Any] = {
        "messageID": message, "topic": TOPIC, "peerID": remote, "receivedFrom": remote,
        "sendTo": remote, "state": row.state, "region": row.kind, "kind": row.kind,
        "up": row.state == "up", "reason": row.reason, "rtt": row.rtt,
    }  # fmt: skip
    content = {field: said.get(field) for field in _FIELDS[kind]}
    beside: dict[str, Any] = {}
    if kind in ("publishMessage", "deliverMessage", "duplicateMessage"):
        beside["payload"] = {"size": row.size or 0, "hops": row.hops}
    elif kind == "sendRPC":
        content["meta"] = _meta(row)
        beside["frame"] = {
            "size": row.size or 0, "payload": row.payload or 0, "hops": row.hops,
            "control": [row.control] if row.control is not None else (),
            "ihaveHops": row.announced or (),
        }  # fmt: skip
    elif kind in ("graft", "prune"):
        beside["tree"] = {"state": row.state}
    return made(kind, peer_id(row.peer), row.time, content, **beside)


def header_of(fields: Mapping[str, Any]) -> TraceEvent:
    """The first event of a trace."""
    return made("header", peer_id(OUTSIDE), 0, fields)


def report_of(written: int) -> TraceEvent:
    """The last one."""
    report = {"written": written, "dropped": 0, "failed": 0, "end": True, "closed": True}
    return made("report", peer_id(OUTSIDE), 0, report)


def _meta(row: Row) -> dict[str, Any] | None:
    """What Go's RPCMeta says of a sendRPC."""
    if row.message is not None:
        return {"messages": [{"messageID": message_id(row.message), "topic": TOPIC}]}
    ids = {"messageIDs": [message_id(message) for message in row.messages or ()]}
    control: dict[str, Any] = {
        "IHAVE": {"ihave": [{"topic": TOPIC, **ids}]},
        "GRAFT": {"graft": [{"topic": TOPIC}], "iwant": [ids] if row.messages else ()},
        "PRUNE": {"prune": [{"topic": TOPIC}]},
        "IWANT": {"iwant": [ids]},
        "IDONTWANT": {"idontwant": [ids]},
    }
    said = control.get(row.control or "")
    return None if said is None else {"control": said}


_KINDS: Any = TraceEvent.DESCRIPTOR.fields_by_name
_FIELDS = {kind: tuple(_KINDS[kind].message_type.fields_by_name) for kind in (*TYPED, *OWN)}
"""What each kind of event says."""
