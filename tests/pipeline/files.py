"""Trace files of every format, made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from episub_router.pb.trace_pb2 import TraceEvent

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def peer(number: int) -> bytes:
    """A peer id of the usual form."""
    return b"\x00\x24\x08\x01\x12\x20" + bytes([number]) * 32


def delimited(events: Iterable[TraceEvent]) -> bytes:
    out = bytearray()
    for event in events:
        raw = event.SerializeToString()
        length = len(raw)
        while length > 0x7F:
            out.append(length & 0x7F | 0x80)
            length >>= 7
        out.append(length)
        out += raw
    return bytes(out)


def node_events(
    node: int, nodes: int = 4, messages: int = 10, begin: int = START
) -> list[TraceEvent]:
    """A node in a star around node 0, which publishes a message every second; each node sends
    every message back, in vain."""

    def event(name: str, at: int) -> TraceEvent:
        return TraceEvent(type=TraceEvent.Type.Value(name), peerID=peer(node), timestamp=begin + at)

    made = [event("JOIN", 0)]
    made[0].join.topic = "news"
    for number in range(messages):
        at, message = (number + 11) * SECOND, b"id-%d" % number
        if node == 0:
            made.append(event("PUBLISH_MESSAGE", at))
            made[-1].publishMessage.messageID = message
            made[-1].publishMessage.topic = "news"
        made.append(event("DELIVER_MESSAGE", at + 20_000_000 * (node > 0)))
        made[-1].deliverMessage.messageID = message
        made[-1].deliverMessage.topic = "news"
        made[-1].deliverMessage.receivedFrom = peer(0)
        others = range(1, nodes) if node == 0 else [0]
        for other in others:
            made.append(event("SEND_RPC", at + 1_000_000 + 21_000_000 * (node > 0)))
            made[-1].sendRPC.sendTo = peer(other)
            meta = made[-1].sendRPC.meta.messages.add()
            meta.messageID, meta.topic = message, "news"
            arrival = at + (42_000_000 if node == 0 else 19_000_000)
            made.append(event("RECV_RPC", arrival))
            made[-1].recvRPC.receivedFrom = peer(other)
            meta = made[-1].recvRPC.meta.messages.add()
            meta.messageID, meta.topic = message, "news"
            if node == 0:
                made.append(event("DUPLICATE_MESSAGE", arrival + 1))
                made[-1].duplicateMessage.messageID = message
                made[-1].duplicateMessage.topic = "news"
                made[-1].duplicateMessage.receivedFrom = peer(other)
    return made


def write_star(directory: Path, nodes: int = 4, messages: int = 10) -> int:
    """Traces of a star, one PB file per node; how many events they have."""
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    for node in range(nodes):
        events = node_events(node, nodes, messages)
        count += len(events)
        Path(directory, f"node-{node}.pb").write_bytes(delimited(events))
    return count
