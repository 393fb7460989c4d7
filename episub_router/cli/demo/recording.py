"""What happened to each message of a demo, copy by copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from episub_router import EpisubRouter
from episub_router.trace.tracer import Tracer

_NUMBER_BYTES = 8


def payload(number: int, filler: bytes) -> bytes:
    """The payload of message `number`, as long as the filler is."""
    return number.to_bytes(_NUMBER_BYTES, "big") + filler[_NUMBER_BYTES:]


@dataclass(slots=True)
class Trace:
    """One message: where it came from and where it went. Hosts are numbers, times seconds."""

    source: int
    published: float
    copies: int = 0
    """Payloads that hosts received, with those that their Pubsub dropped as seen."""
    parents: dict[int, int] = field(default_factory=dict)
    """The peer that each host got the message from, the source excepted."""
    arrivals: dict[int, float] = field(default_factory=dict)
    """When each host's application received it."""
    repeated: int = 0
    """How often an application received it again."""

    @property
    def duplicates(self) -> int:
        """Copies beyond the first at each host."""
        return self.copies - len(self.parents)

    def hops(self, host: int) -> int:
        """Links between the source and `host`, which has received the message."""
        count = 0
        while host != self.source:
            host = self.parents[host]
            count += 1
        return count


def duplicates(traces: Sequence[Trace]) -> float:
    """Duplicates per first copy of these messages, at all hosts."""
    return sum(trace.duplicates for trace in traces) / max(
        1, sum(len(trace.parents) for trace in traces)
    )


class Recorder:
    """Traces of all messages, by number. Calls `changed` for everything that arrives."""

    def __init__(self, expected: Iterable[int], changed: Callable[[], None]) -> None:
        """`expected` are the hosts that every message is to reach."""
        self.traces: list[Trace] = []
        self.finished = 0
        """Messages that every expected host has."""
        self.numbers: dict[ID, int] = {}
        """Numbers of the hosts."""
        self._expected = frozenset(expected)
        self._waiting: list[int] = []
        """Expected hosts that miss each message."""
        self._changed = changed

    def published(self, source: int) -> int:
        """A message is about to be published; its number."""
        self.traces.append(Trace(source, trio.current_time()))
        self._waiting.append(len(self._expected - {source}))
        return len(self.traces) - 1

    def copy(self, data: bytes) -> None:
        """A host received a payload."""
        self.traces[_number(data)].copies += 1
        self._changed()

    def accepted(self, host: int, forwarder: ID, data: bytes) -> None:
        """A payload from `forwarder` was the first valid one of its message at `host`."""
        if self.numbers[forwarder] != host:
            self.traces[_number(data)].parents.setdefault(host, self.numbers[forwarder])

    def delivered(self, host: int, data: bytes) -> None:
        """The application of `host` received a message."""
        number = _number(data)
        trace = self.traces[number]
        if host in trace.arrivals:
            trace.repeated += 1
        elif host != trace.source:
            trace.arrivals[host] = trio.current_time()
            if host in self._expected:
                self._waiting[number] -= 1
                self.finished += not self._waiting[number]
        self._changed()


def _number(data: bytes) -> int:
    return int.from_bytes(data[:_NUMBER_BYTES], "big")


class RecordingRouter(EpisubRouter):
    """An EpisubRouter that reports what passes through it to `recorder`."""

    def __init__(
        self,
        number: int,
        recorder: Recorder,
        bootstrap: Iterable[str],
        seed: int,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(bootstrap=bootstrap, seed=seed, tracer=tracer)
        self._number = number
        self._recorder = recorder

    async def handle_rpc(self, rpc: rpc_pb2.RPC, sender_peer_id: ID) -> None:
        for message in rpc.publish:
            self._recorder.copy(message.data)
        await super().handle_rpc(rpc, sender_peer_id)

    async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
        self._recorder.accepted(self._number, msg_forwarder, pubsub_msg.data)
        await super().publish(msg_forwarder, pubsub_msg)
