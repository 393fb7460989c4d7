"""Reading by the column gives what reading one event after another gives."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from episub_router.pb.trace_pb2 import TraceEvent  # noqa: E402
from episub_router.pipeline.reading.files import read_file, read_together  # noqa: E402
from episub_router.pipeline.record import ENCODED, RECORD  # noqa: E402
from episub_router.sim.runner import run  # noqa: E402
from episub_router.trace.kinds import TYPED  # noqa: E402
from tests.pipeline.files import delimited, node_events  # noqa: E402
from tests.pipeline.one_by_one import one_by_one  # noqa: E402

Row = dict[str, Any]


def _in_order(rows: list[Row]) -> list[Row]:
    """All but the last rows of files; events at impossible times without their size, which differs
    for a number that is written with more bytes than it needs."""
    kept = [
        row | {"size": None} if str(row["detail"]).startswith("an event") else row
        for row in rows
        if row["status"] != "file"
    ]
    return sorted(kept, key=lambda row: row["offset"])


@pytest.fixture(scope="module")
def real_traces(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Of Episub and gossipsub in the simulator, whose nodes come and go, and of a star."""
    from tests.pipeline.simulations import simulation

    directory = tmp_path_factory.mktemp("real")
    made = [delimited(node_events(0, messages=40))]
    for router in ("episub", "gossipsub"):
        path = directory / f"{router}.pb"
        run(simulation(router, "churn").scenario, 1, trace=path)
        made.append(path.read_bytes()[:200_000])
    return made


@pytest.mark.slow
def test_reading_by_the_column_makes_the_same_records(
    real_traces: list[bytes], tmp_path: Path
) -> None:
    """Of sound files, the last of them cut off, and of such with flipped bits; of each by itself,
    and of all and an empty one together."""
    rng = random.Random(5)
    several: dict[str, list[Row]] = {}
    for number, sound in enumerate([b"", *real_traces * 6]):
        damaged = bytearray(sound)
        for _ in range(min(number // len(real_traces), 3) if sound else 0):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path = tmp_path / f"{number}.pb"
        path.write_bytes(damaged)
        found = pa.Table.from_batches(read_file(str(path), "f", "r"), schema=RECORD).to_pylist()
        wanted = _in_order(one_by_one(path)) if sound else []
        assert _in_order(found) == wanted
        assert json.loads(found[-1]["detail"])["records"] == len(wanted)
        several[str(path)] = [row | {"file": str(path)} for row in wanted]
    batches = read_together(((path, path, {}) for path in several), "r")
    rows = pa.Table.from_batches(batches, schema=ENCODED).cast(RECORD).to_pylist()
    for path, wanted in several.items():
        of_file = [row for row in rows if row["file"] == path]
        assert _in_order(of_file) == wanted
        (end,) = (row for row in of_file if row["status"] == "file")
        assert json.loads(end["detail"])["records"] == len(wanted)


@pytest.mark.slow
@given(st.data())
def test_every_event_is_the_same_by_the_column(data: st.DataObject) -> None:
    """Whatever fields it has, and how long its texts are."""
    events = []
    for _ in range(data.draw(st.integers(8, 12))):
        event = TraceEvent(
            type=data.draw(st.sampled_from([0, 2, 3, 6, 7])), peerID=b"p", timestamp=1
        )
        _fill(data, event)
        events.append(event)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "trace.pb")
        path.write_bytes(delimited(events))
        found = pa.Table.from_batches(read_file(str(path), "f", "r"), schema=RECORD).to_pylist()
        assert _in_order(found) == _in_order(one_by_one(path))


def _fill(data: st.DataObject, event: TraceEvent) -> None:
    texts = st.sampled_from(["", "t", "topic", "ü" * 70])
    ids = st.sampled_from([b"", b"id", b"\xff\x01", b"6964", b"x" * 130])
    maybe = st.booleans()
    if data.draw(maybe):
        event.timestamp = data.draw(st.sampled_from([0, -1, 2**40, 2**62, 2**62 - 1]))
    kind = TYPED[event.type]
    body = getattr(event, kind)
    if kind in ("recvRPC", "sendRPC"):
        setattr(body, "sendTo" if kind == "sendRPC" else "receivedFrom", data.draw(ids))
        for _ in range(data.draw(st.integers(0, 2))):
            body.meta.messages.add(messageID=data.draw(ids), topic=data.draw(texts))
        for _ in range(data.draw(st.integers(0, 2))):
            several = [data.draw(ids) for _ in range(data.draw(st.integers(0, 2)))]
            body.meta.control.ihave.add(topic=data.draw(texts), messageIDs=several)
            if data.draw(maybe):
                body.meta.control.iwant.add(messageIDs=several)
        if data.draw(st.integers(0, 5)) == 0:
            body.meta.control.graft.add(topic="t")
        if data.draw(st.integers(0, 5)) == 0:
            body.meta.subscription.add(subscribe=True, topic="t")
        if data.draw(maybe):
            event.frame.size = data.draw(st.sampled_from([0, 200, 2**32 - 1]))
            event.frame.ihaveHops.extend([1, 300])
            if data.draw(maybe):
                event.frame.topic, event.frame.seq = data.draw(texts), 2**64 - 1
                event.frame.control.append(data.draw(st.sampled_from(["IHAVE", "GRAFT", "JOIN"])))
        return
    body.messageID = data.draw(ids)
    if data.draw(maybe):
        body.topic = data.draw(texts)
    if kind != "publishMessage" and data.draw(maybe):
        body.receivedFrom = data.draw(ids)
    if data.draw(maybe):
        event.payload.size = data.draw(st.sampled_from([0, 2**32 - 1]))
