"""Events as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from libp2p.peer.id import ID

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import kind_of

_SHOWN = 8
"""Characters of an id that are shown, its last ones: the first are alike in all."""

_PEERS = frozenset({"peerID", "receivedFrom", "sendTo", "peers"})
_BESIDE = ("payload", "frame", "tree")
_SIMULATED = b"\x00"


def line(event: TraceEvent, *, simulated: bool = False) -> str:
    """`event` on one line: time, node, kind, and fields as name=value.

    Times are in UTC, or in seconds of a `simulated` run. Of ids the end is shown.
    """
    kind = kind_of(event)
    parts = [
        f"{event.timestamp / 1e9:.6f}" if simulated else _time(event.timestamp),
        peer_name(event.peerID),
        kind or "(unknown kind)",
    ]
    if kind is not None:
        parts += _fields(getattr(event, kind), "")
        for name in _BESIDE:
            parts += _fields(getattr(event, name), f"{name}.")
    return " ".join(parts)


def peer_name(peer: bytes) -> str:
    """The end of a peer id in base58; a simulated node's name."""
    if peer[:1] == _SIMULATED and peer[2:6] == b"sim-" and len(peer) == 2 + peer[1]:
        return peer[2:].decode(errors="replace")
    return str(ID(peer).to_base58())[-_SHOWN:]


def _time(timestamp: int) -> str:
    seconds, nanoseconds = divmod(timestamp, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ns"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000:06}Z"


def _fields(message: Any, prefix: str) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.message_type is None:
            shown = [_shown(field, item) for item in (value if field.is_repeated else [value])]
            yield f"{prefix}{field.name}={','.join(shown)}"
        elif field.is_repeated:
            for item in value:
                yield f"{field.name}({' '.join(_fields(item, ''))})"
        else:
            # What surrounds the parts of an RPC says nothing.
            yield from _fields(value, prefix if field.name in ("meta", "control") else "")


def _shown(field: FieldDescriptor, value: Any) -> str:
    if field.type != FieldDescriptor.TYPE_BYTES:
        # A topic or reason comes from others: it shall not steer the terminal.
        return str(value) if str(value).isprintable() else ascii(value)
    if field.name in _PEERS:
        return peer_name(value)
    name = value.decode("ascii", errors="replace")
    return name if name.isalnum() else str(value.hex())[-_SHOWN:]
