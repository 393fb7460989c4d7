"""Traces of a network that never was, as PB: each message reaches every node over a tree and twice
more (per message and node: three sends, three receipts, a delivery, two duplicates, an announcement
sent and received)."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.pb.trace_pb2 import TraceEvent

PER_DELIVERY = 11
"""Events, per message and node."""

LAST = 360_000_000
"""ns after its publishing that a message's first copies in vain come in."""
_PER_STEP = 100_000
"""ns later for each node that their sender is farther away."""
_HOP = 40_000_000
_SKEWED = 50
"""Every so many nodes has a clock that is 200 ms ahead."""
_SKEW = 200_000_000


def peer(node: int) -> bytes:
    return b"\x00\x24\x08\x01\x12\x20" + node.to_bytes(4, "big") * 8


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


class Network:
    """`nodes` nodes that are all in one topic."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._names = [peer(node) for node in range(nodes)]
        self._extra = (nodes // 10 + 1, nodes // 5 + 11)
        """How far away in the tree's order the senders of the two copies in vain are."""
        self.longest = LAST + max(self._extra) * _PER_STEP + _SKEW
        """ns after a message's publishing that its last event has, by any clock."""

    def joining(self, node: int, at: int) -> bytes:
        """The begin of a node's trace: it joins and has its links."""
        out = _Trace(self._names[node], _skew(node))
        join = TraceEvent(
            type=TraceEvent.JOIN, peerID=self._names[node], timestamp=at + _skew(node)
        )
        join.join.topic = "news"
        out.raw(join.SerializeToString())
        for far in (1, *self._extra):
            for other in ((node + far) % self.nodes, (node - far) % self.nodes):
                name = _field(1, self._names[other])
                out.add(4, at + far, _field(8, name))
                out.add(11, at + far + 1, _field(15, name + _field(2, b"news")))
        return out.content()

    def spreading(self, node: int, messages: Iterable[tuple[int, int]]) -> bytes:
        """What a node's trace has of `messages`, (number, ns when it is published)."""
        names, nodes = self._names, self.nodes
        topic = _field(2, b"news")
        out = _Trace(names[node], _skew(node))

        def rpc(kind: int, number: int, at: int, other: int, message: bytes) -> None:
            meta = _field(1, message + topic)
            out.add(kind, at, _field(number, _field(1, names[other]) + _field(2, meta)))

        def announcement(kind: int, number: int, at: int, other: int, message: bytes) -> None:
            ihave = _field(1, _field(1, b"news") + _field(2, message[2:]))
            meta = _field(3, ihave)
            out.add(kind, at, _field(number, _field(1, names[other]) + _field(2, meta)))

        for m, start in messages:
            source = m % nodes
            place = (node - source) % nodes
            depth = 0
            above = place
            while above:
                above, depth = (above - 1) // 3, depth + 1
            arrived = start + depth * _HOP + (node * 7919 + m * 104729) % 5_000_000
            from_whom = ((place - 1) // 3 + source) % nodes
            message = _field(1, names[source] + m.to_bytes(8, "big"))
            body = message + topic
            if place == 0:
                arrived = start
                out.add(0, start, _field(4, body))
                out.add(3, start, _field(7, body + _field(3, names[node])))
            else:
                rpc(6, 10, arrived - 1000, from_whom, message)
                out.add(3, arrived, _field(7, body + _field(3, names[from_whom])))
            for child in (3 * place + 1, 3 * place + 2, 3 * place + 3):
                if child < nodes:
                    rpc(7, 11, arrived + 1000, (child + source) % nodes, message)
            announcement(7, 11, arrived + 3000, (node + 1) % nodes, message)
            announcement(6, 10, start + LAST, (node - 1) % nodes, message)
            for far in self._extra:
                other = (node - far) % nodes
                rpc(7, 11, arrived + 2000, (node + far) % nodes, message)
                late = start + LAST - _HOP + far * _PER_STEP
                rpc(6, 10, late, other, message)
                copy = _field(2, names[other]) + _field(3, b"news")
                out.add(2, late + 500, _field(6, message + copy))
        return out.content()


class _Trace:
    """Events of one node, whose clock is `skew` ns ahead."""

    def __init__(self, name: bytes, skew: int) -> None:
        self._before = b"\x12" + _varint(len(name)) + name + b"\x18"
        self._skew = skew
        self._out: list[bytes] = []

    def add(self, kind: int, at: int, body: bytes) -> None:
        time = _varint(at + self._skew)
        self.raw(b"\x08" + bytes((kind,)) + self._before + time + body)

    def raw(self, event: bytes) -> None:
        self._out.append(_varint(len(event)) + event)

    def content(self) -> bytes:
        return b"".join(self._out)


def _skew(node: int) -> int:
    return _SKEW if node and node % _SKEWED == 0 else 0
