"""A history as files: one trace per host (docs/trace.md), and `run.json` beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from libp2p.peer.id import ID

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import CARRIER
from episub_router.trace.output import TraceOutput
from episub_router.trace.reading import TraceFile, Unreadable
from interop.testbed.faults import Fault, FaultKind
from interop.testbed.history.records import (
    Accepted,
    Delivered,
    Event,
    History,
    Lived,
    Log,
    Neighbors,
    Parted,
    Refused,
    Usage,
)

_TOPIC = "testbed"
_SECOND = 1_000_000_000
_SESSION = "testbed session "
"""How a header's `software` names the session that the events after it belong to."""
_TRACED = {"ready": "start", "leave": "leave", "kill": "crash", "death": "crash"}
"""Lives that the trace format has a name for."""


def write(history: History, directory: Path) -> None:
    """Write `host-N.history.pb` for each host, and `run.json`. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for host in range(history.hosts):
        output = TraceOutput(directory / f"host-{host}.history.pb")
        output.append([event.SerializeToString() for event in _trace(history, host)])
        output.close()
    run = {
        "name": history.name,
        "kinds": list(history.kinds),
        "duration": history.duration,
        "began": history.began,
        "peers": list(history.peers),
        "faults": [asdict(fault) for fault in history.faults],
        "asked": {message: list(when) for message, when in history.asked.items()},
        "accepted": [[e.message, e.asked, e.after] for e in history.accepted],
        "lost": [
            [e.host, e.session, e.message, list(e.missing)] for e in history.delivered if e.missing
        ],
        "lives": [[e.time, e.host, e.session, e.state] for e in _lives(history)],
        "refused": [list(asdict(e).values()) for e in history.events if isinstance(e, Refused)],
        "parted": [list(asdict(e).values()) for e in history.events if isinstance(e, Parted)],
        "usage": [list(asdict(usage).values()) for usage in history.usage],
        "logs": [[log.host, list(log.messages)] for log in history.logs],
    }
    (directory / "run.json").write_text(json.dumps(run))


def read(directory: Path) -> History:
    """What `write` has written. Raises OSError, and ValueError for anything else."""
    try:
        run = json.loads((directory / "run.json").read_text())
        history = History(
            run["name"], run["kinds"], run["duration"], run["began"], tuple(run["peers"])
        )
        history.asked = {message: (when, host) for message, (when, host) in run["asked"].items()}
        history.faults = [_fault(entry) for entry in run["faults"]]
        history.usage = [Usage(*values) for values in run["usage"]]
        history.logs = [Log(host, tuple(messages)) for host, messages in run["logs"]]
        accepted = {message: (asked, after) for message, asked, after in run["accepted"]}
        lost = {tuple(place): tuple(missing) for *place, missing in run["lost"]}
        events: list[Event] = [Lived(*values) for values in run["lives"]]
        events += [Refused(*values) for values in run["refused"]]
        events += [Parted(*values) for values in run["parted"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{directory / 'run.json'} is not of a run: {error!r}") from error
    for host in range(history.hosts):
        path = directory / f"host-{host}.history.pb"
        with TraceFile(path) as trace:
            found = [event for _, event in trace]
        if any(isinstance(event, Unreadable) for event in found):
            raise ValueError(f"{path} is damaged")
        traced = [event for event in found if isinstance(event, TraceEvent)]
        events += _events(history, host, traced, accepted, lost)
    history.events = sorted(events, key=lambda event: event.time)
    return history


def _lives(history: History) -> Iterator[Lived]:
    return (event for event in history.events if isinstance(event, Lived))


def _fault(entry: dict[str, Any]) -> Fault:
    entry = entry | {name: tuple(entry[name]) for name in ("hosts", "others")}
    return Fault(**(entry | {"kind": FaultKind(entry["kind"])}))


def _trace(history: History, host: int) -> Iterator[TraceEvent]:
    """The events of one host in the trace format."""
    peers = [ID.from_base58(peer).to_bytes() for peer in history.peers]
    known: frozenset[int] = frozenset()
    session = -1

    def made(time: float, type: TraceEvent.Type.ValueType = CARRIER, **content: Any) -> TraceEvent:
        at = round((history.began + time) * _SECOND)
        return TraceEvent(type=type, peerID=peers[host], timestamp=at, **content)

    for event in history.events:
        if event.host != host:
            continue
        if event.session != session:
            session = event.session
            yield made(
                event.time,
                header=TraceEvent.TraceHeader(
                    run=history.name,
                    name=f"host-{host}",
                    router=history.kinds[host],
                    software=f"{_SESSION}{session}",
                ),
            )
        match event:
            case Accepted():
                publish = TraceEvent.PublishMessage(messageID=event.message.encode(), topic=_TOPIC)
                yield made(event.time, TraceEvent.PUBLISH_MESSAGE, publishMessage=publish)
            case Delivered():
                deliver = TraceEvent.DeliverMessage(messageID=event.message.encode(), topic=_TOPIC)
                yield made(event.time, TraceEvent.DELIVER_MESSAGE, deliverMessage=deliver)
            case Neighbors():
                for other in sorted(known ^ event.hosts):
                    change = _neighbor(peers[other], up=other in event.hosts)
                    yield made(event.time, neighbor=change)
                known = event.hosts
            case Lived() if event.state in _TRACED:
                yield made(event.time, node=TraceEvent.NodeChange(state=_TRACED[event.state]))


def _neighbor(peer: bytes, *, up: bool) -> TraceEvent.NeighborChange:
    return TraceEvent.NeighborChange(peerID=peer, topic=_TOPIC, up=up)


def _events(
    history: History,
    host: int,
    trace: Iterable[TraceEvent],
    accepted: dict[str, tuple[float, int]],
    lost: dict[tuple[Any, ...], tuple[str, ...]],
) -> Iterator[Event]:
    """`_trace` backwards, but for what happened to the process."""
    numbers = {ID.from_base58(peer).to_bytes(): n for n, peer in enumerate(history.peers)}
    session, known = 0, frozenset[int]()
    changed: float | None = None
    for event in trace:
        time = event.timestamp / _SECOND - history.began
        if changed is not None and not (event.HasField("neighbor") and time == changed):
            yield Neighbors(changed, host, session, known)
            changed = None
        if event.HasField("header"):
            session = int(event.header.software.removeprefix(_SESSION))
        elif event.HasField("publishMessage"):
            message = event.publishMessage.messageID.decode()
            yield Accepted(time, host, session, message, *accepted[message])
        elif event.HasField("deliverMessage"):
            message = event.deliverMessage.messageID.decode()
            missing = lost.get((host, session, message), ())
            yield Delivered(time, host, session, message, missing)
        elif event.HasField("neighbor"):
            other = numbers[event.neighbor.peerID]
            known = known | {other} if event.neighbor.up else known - {other}
            changed = time
    if changed is not None:
        yield Neighbors(changed, host, session, known)
