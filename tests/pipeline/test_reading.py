"""Every format as records, without Spark's JVM."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from episub_router.pb.trace_pb2 import TraceEvent  # noqa: E402
from episub_router.pipeline.reading.files import read_file  # noqa: E402
from episub_router.pipeline.reading.names import message_name, peer_name  # noqa: E402
from episub_router.pipeline.record import RECORD  # noqa: E402
from episub_router.sim.network.latency import REGIONS  # noqa: E402
from episub_router.sim.runner import run  # noqa: E402
from episub_router.sim.scenario import loading  # noqa: E402
from episub_router.trace.reading.json_lines import to_json  # noqa: E402
from tests.pipeline.files import delimited, node_events, peer  # noqa: E402

Row = dict[str, Any]


def rows(path: Path) -> tuple[list[Row], Row]:
    """The records of a file, and what its reader counted."""
    table = pa.Table.from_batches(read_file(str(path), "dir/file", None), schema=RECORD)
    *records, last = table.to_pylist()
    assert last["status"] == "file"
    books = json.loads(last["detail"])
    assert books["records"] == len(records)
    assert books["bytes"] == path.stat().st_size
    # Frequent kinds of event come by the chunk.
    return sorted(records, key=lambda row: row["offset"]), books


def without(records: list[Row], *names: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in records]


@pytest.mark.spark
def test_spark_and_arrow_have_the_same_columns() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.pandas.types import to_arrow_schema

    from episub_router.pipeline import lake

    assert to_arrow_schema(lake.RECORD).equals(RECORD)


def test_names() -> None:
    assert peer_name(peer(1)).startswith("12D3KooW")
    assert peer_name(b"\x00\x05sim-7") == "sim-7"
    assert message_name(b"m7") == "m7"
    assert message_name(b"\x00\xff") == "00ff"


def test_pb_gzip_and_json_are_the_same(tmp_path: Path) -> None:
    events = node_events(0)
    plain, zipped, lines = (tmp_path / name for name in ("a.pb", "b.pb.gz", "c.json"))
    plain.write_bytes(delimited(events))
    zipped.write_bytes(gzip.compress(delimited(events)))
    with lines.open("w") as out:
        for event in events:
            value = MessageToDict(event, use_integers_for_enums=True)
            value["timestamp"] = event.timestamp
            out.write(json.dumps(value) + "\n")
    from_pb, books = rows(plain)
    assert books["format"] == "pb"
    assert len(from_pb) == len(events)
    from_gzip, books = rows(zipped)
    assert books["format"] == "pb+gz"
    assert from_gzip == from_pb
    from_json, books = rows(lines)
    assert books["format"] == "json"
    assert without(from_json, "offset") == without(from_pb, "offset")
    send = next(row for row in from_pb if row["event"] == "send")
    assert send["parts"] == [
        {"kind": "message", "topic": "news", "messages": ["id-0"], "peers": None}
    ]
    assert send["run"] == "dir"


def test_all_fields_of_an_rpc_and_of_our_own_events(tmp_path: Path) -> None:
    rpc = TraceEvent(type=TraceEvent.SEND_RPC, peerID=peer(1), timestamp=5)
    rpc.sendRPC.sendTo = peer(2)
    meta = rpc.sendRPC.meta
    meta.subscription.add(subscribe=True, topic="t")
    meta.control.ihave.add(topic="t", messageIDs=[b"x", b"y"])
    meta.control.iwant.add(messageIDs=[b"z"])
    meta.control.prune.add(topic="t", peers=[peer(3)])
    meta.control.idontwant.add(messageIDs=[])
    rpc.frame.size, rpc.frame.payload, rpc.frame.seq = 2**32 - 1, 7, 2**64 - 1
    rpc.frame.topic = "t"
    rpc.frame.control.extend(["IHAVE", "SHUFFLE"])
    header = TraceEvent(type=TraceEvent.JOIN, peerID=peer(1), timestamp=1)
    header.header.run = "named"
    header.header.written = 2**40
    sds = TraceEvent(type=TraceEvent.JOIN, peerID=peer(1), timestamp=9)
    sds.sds.topic, sds.sds.channelID, sds.sds.participant = "t", "c", "p"
    sds.sds.deliver.messageID, sds.sds.deliver.sender, sds.sds.deliver.lamport = "m", "q", 3
    sds.sds.deliver.causalHistory.extend(["a", "b"])
    newer = TraceEvent.FromString(b"\x08\x63" + b"\x12\x02ab" + b"\x18\x05" + b"\xba\x06\x00")
    path = tmp_path / "trace"
    path.write_bytes(delimited([header, rpc, sds, newer]))
    (first, second, third, fourth), _ = rows(path)
    assert first["run"] == "named"
    assert json.loads(first["detail"]) == {"run": "named", "written": 2**40}
    kinds = [(part["kind"], part["messages"], part["peers"]) for part in second["parts"]]
    assert kinds == [
        ("subscribe", None, None),
        ("ihave", ["x", "y"], None),
        ("iwant", ["z"], None),
        ("prune", None, [peer_name(peer(3))]),
        ("idontwant", [], None),
        ("shuffle", None, None),
    ]
    assert (second["size"], second["payload"]) == (2**31 - 1, 7)
    assert second["seq"] == 2**63 - 1
    assert third["sds"]["history"] == ["a", "b"]
    assert third["sds"]["action"] == "deliver"
    assert fourth["event"] == "other"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["churn", "routers"])
def test_a_simulation_is_the_same_in_every_format(name: str, tmp_path: Path) -> None:
    settings = {"network.nodes": 12, "traffic.messages": 5, "network.loss": 0.1}
    for variant, scenario in loading.load(name).scenarios(settings).items():
        found = {}
        for ending in ("parquet", "pb.gz", "json"):
            path = tmp_path / f"trace.{ending}"
            run(scenario, 1, trace=path)
            found[ending], _ = rows(path)
        wanted = without(found["pb.gz"], "offset")
        assert wanted.pop()["event"] == "report"
        assert without(found["json"][:-1], "offset") == wanted
        in_columns = without(found["parquet"], "offset")
        header, of_pb = (json.loads(rows.pop(0)["detail"]) for rows in (in_columns, wanted))
        assert header == of_pb
        assert in_columns == wanted, variant


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({"latency.kind": "regions"}, {*REGIONS}),
        ({"latency.kind": "plane", "latency.sites": 3}, {"site 0", "site 1", "site 2"}),
        ({"latency.kind": "plane"}, {None}),
    ],
)
def test_simulated_nodes_say_where_they_are(
    settings: dict[str, Any], places: set[str | None], tmp_path: Path
) -> None:
    few = {"network.nodes": 12, "traffic.messages": 1} | settings
    (scenario, *_) = loading.load("routers").scenarios(few).values()
    found = []
    for ending in ("parquet", "pb"):
        run(scenario, 1, trace=tmp_path / f"trace.{ending}")
        read, _ = rows(tmp_path / f"trace.{ending}")
        found.append({row["peer"]: row["kind"] for row in read if row["event"] == "node"})
    assert found[0] == found[1]
    assert len(found[0]) == 12
    assert set(found[0].values()) <= places
    assert len({*found[0].values()}) > 1 or places == {None}


def test_hermes_tables(tmp_path: Path) -> None:
    base = {"timestamp": [5, 6], "type": ["ihave"] * 2, "producer_id": ["12D3A"] * 2}
    remote = {"is_og": [True] * 2, "remote_peer_id": ["12D3B"] * 2}
    ihave = base | remote | {
        "direction": ["in", "out"], "topic": ["t"] * 2, "msg_ids": [["a", "b"], []], "msgs": [2, 0],
    }  # fmt: skip
    arrival = base | {
        "type": ["msg_arrival"] * 2, "sub_type": ["deliver_msg", "validate_msg"],
        "remote_peer_id": ["12D3B"] * 2, "topic": ["t"] * 2, "msg_id": ["a"] * 2,
        "local": [False] * 2, "msg_size": [2**40, 7], "seq_no": [""] * 2,
    }  # fmt: skip
    pq.write_table(pa.table(ihave), tmp_path / "ihave")
    pq.write_table(pa.table(arrival), tmp_path / "arrival")
    (received, sent), books = rows(tmp_path / "ihave")
    assert books["format"] == "hermes"
    assert (received["event"], sent["event"]) == ("recv", "send")
    assert received["time"] == 5_000_000
    assert received["parts"] == [
        {"kind": "ihave", "topic": "t", "messages": ["a", "b"], "peers": None}
    ]
    (delivered, validated), _ = rows(tmp_path / "arrival")
    assert (delivered["event"], delivered["message"]) == ("deliver", "a")
    assert (delivered["size"], delivered["remote"]) == (2**31 - 1, "12D3B")
    assert (validated["event"], validated["kind"]) == ("other", "validate_msg")


def test_unknown_and_damaged_parquet_is_quarantined(tmp_path: Path) -> None:
    pq.write_table(pa.table({"what": [1]}), tmp_path / "unknown")
    (record,), _ = rows(tmp_path / "unknown")
    assert record["status"] == "quarantined"
    assert "unknown columns: what" in record["detail"]
    whole = (tmp_path / "unknown").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (record,), _ = rows(tmp_path / "cut")
    assert record["status"] == "quarantined"


@pytest.mark.parametrize("lacking", ["hops", "size", "payload", "rtt", "kind", "reason"])
def test_parquet_that_lacks_a_column_is_quarantined(lacking: str, tmp_path: Path) -> None:
    from episub_router.sim.trace import Row as Simulated

    event = Simulated(1, "sendRPC", 0)._asdict()
    columns = {name: [value] for name, value in event.items() if name != lacking}
    pq.write_table(pa.table(columns), tmp_path / "other")
    (record,), books = rows(tmp_path / "other")
    assert record["status"] == "quarantined"
    assert books["format"] == "unknown"


@pytest.mark.parametrize("error", [KeyError("hops"), TypeError(""), IndexError("1")])
def test_whatever_parquet_raises_costs_its_rows_only(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from episub_router.pipeline.reading import hermes

    def fail(*given: object) -> None:
        raise error

    row = {"timestamp": [5], "type": ["ihave"], "producer_id": ["12D3A"]}
    pq.write_table(pa.table(row), tmp_path / "table")
    monkeypatch.setattr(hermes, "records", fail)
    (record,), _ = rows(tmp_path / "table")
    assert record["status"] == "quarantined"
    assert record["detail"].startswith("1 rows: ")


@pytest.mark.parametrize("lines", [1, 30_000])
def test_the_first_event_names_the_run_whatever_is_before_it(lines: int, tmp_path: Path) -> None:
    """Unless that is more than can be held back."""
    header = TraceEvent(type=TraceEvent.JOIN, peerID=peer(1), timestamp=1)
    header.header.run = "named"
    path = tmp_path / "trace"
    with path.open("w") as out:
        for event in [header, *node_events(0)]:
            out.write('{"damaged":\n' * lines * (event is header) + to_json(event) + "\n")
    found, _ = rows(path)
    assert {row["run"] for row in found} == ({"named"} if lines == 1 else {"dir"})
    assert sum(row["status"] == "quarantined" for row in found) == lines
    assert [row["offset"] for row in found] == sorted(row["offset"] for row in found)
    path.write_text('{"damaged": \n')
    (record,), _ = rows(path)
    assert (record["status"], record["run"]) == ("quarantined", "dir")


@pytest.mark.parametrize("time", [None, -1, 2**62, -(2**63)])
def test_events_at_impossible_times_are_quarantined(time: int | None, tmp_path: Path) -> None:
    good, bad = node_events(0)[:2]
    bad.ClearField("timestamp")
    if time is not None:
        bad.timestamp = time
    path = tmp_path / "trace"
    path.write_bytes(delimited([bad, good, bad]))
    found, _ = rows(path)
    assert [row["status"] for row in found] == ["quarantined", "event", "quarantined"]
    assert found[0]["size"] == bad.ByteSize()
    assert str(time or "without a timestamp") in found[0]["detail"]


@pytest.mark.slow
def test_damage_costs_what_it_hits(tmp_path: Path) -> None:
    """A flipped bit costs the event that it is in, and no other."""
    rng = random.Random(5)
    events = node_events(0)
    sound = delimited(events)
    path = tmp_path / "trace"
    path.write_bytes(sound)
    wanted, _ = rows(path)
    for _ in range(100):
        damaged = bytearray(sound)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        found, _ = rows(path)
        kept = {json.dumps(row, sort_keys=True) for row in without(found, "offset", "run")}
        lost = [
            row
            for row in without(wanted, "offset", "run")
            if json.dumps(row, sort_keys=True) not in kept
        ]
        assert len(lost) <= 1


def test_text_that_is_not_utf8_becomes_escapes(tmp_path: Path) -> None:
    header = TraceEvent(type=TraceEvent.JOIN, peerID=peer(1), timestamp=1)
    header.header.run = "news"
    sds = TraceEvent(type=TraceEvent.JOIN, peerID=peer(1), timestamp=1)
    sds.sds.send.messageID = "news"
    sds.sds.send.causalHistory.append("news")
    rpc = TraceEvent(type=TraceEvent.SEND_RPC, peerID=peer(1), timestamp=5)
    rpc.sendRPC.meta.subscription.add(subscribe=True, topic="news")
    rpc.frame.control.append("news")
    path = tmp_path / "trace"
    path.write_bytes(delimited([header, node_events(0)[0], sds, rpc]).replace(b"news", b"n\xffws"))
    found, _ = rows(path)
    text = "n\\xffws"
    assert [row["status"] for row in found] == ["event"] * 4
    assert found[0]["run"] == text
    assert found[1]["topic"] == text
    assert found[2]["sds"]["history"] == [text]
    assert [(part["kind"], part["topic"]) for part in found[3]["parts"]] == [
        ("subscribe", text),
        (text, None),
    ]


def test_what_the_simulator_puts_beside_its_traces_is_passed_over(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from episub_router.pipeline.reading.source import find

    for name in ("trace-1.parquet", "summary.json", "degree.svg", "_under_way", "x.pb.tmp"):
        (tmp_path / name).touch()
    assert find(str(tmp_path)) == [str(tmp_path / "trace-1.parquet")]
    # A query that names it means it.
    assert find(str(tmp_path / "summary.json")) == [str(tmp_path / "summary.json")]
