"""Ingesting: everything once, whatever happens in between."""

from __future__ import annotations

import gzip
import random
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from episub_router.sim.runner import run
from episub_router.sim.scenario import loading
from tests.pipeline.files import START, delimited, node_events, peer, write_star

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from episub_router.pipeline.lake import Entry, Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    from episub_router.pipeline.lake import Lake

    return Lake(spark, str(tmp_path / "lake"))


def test_the_same_input_twice_adds_nothing(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import LakeError

    traces = tmp_path / "star"
    count = write_star(traces)
    done = ingest(spark, lake, [str(traces)])
    assert (done.events, done.quarantined, len(done.added)) == (count, 0, 4)
    assert {entry.run for entry in done.added} == {"star"}
    again = ingest(spark, lake, [str(traces / "*.pb"), str(traces / "node-1.pb")])
    assert (again.events, len(again.added), len(again.known)) == (0, 0, 4)
    (traces / "node-9.pb").write_bytes(delimited(node_events(3, begin=5)))
    more = ingest(spark, lake, [str(traces)])
    assert [Path(entry.file).name for entry in more.added] == ["node-9.pb"]
    assert lake.events(["star"]).count() == count + more.events
    other = ingest(spark, lake, [str(traces / "node-9.pb")], "another")
    assert lake.events(["another"]).count() == other.events
    (traces / "node-9.pb").write_bytes(delimited(node_events(2, begin=5)))
    with pytest.raises(LakeError, match=r"node-9\.pb has changed"):
        ingest(spark, lake, [str(traces)])
    with pytest.raises(LakeError, match="no run nowhere"):
        lake.events(["nowhere"])
    with pytest.raises(FileNotFoundError):
        ingest(spark, lake, [str(tmp_path / "nothing")])


def test_what_an_interrupted_ingest_left_is_not_read(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from episub_router.pipeline import ingest as module
    from episub_router.pipeline.lake import Lake as Class

    first, second = tmp_path / "first", tmp_path / "second"
    count = write_star(first)
    write_star(second, nodes=3)
    module.ingest(spark, lake, [str(first)])

    class Killed(Exception):
        pass

    def die(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Class, "commit", die)
        with pytest.raises(Killed):
            module.ingest(spark, lake, [str(second)])
    # Nobody sees what is half done, those that read the Parquet directly included.
    assert len(list(Path(lake.root, "bronze").iterdir())) == 1
    assert lake.events().count() == count
    done = module.ingest(spark, lake, [str(second)])
    assert len(list(Path(lake.root, "bronze").iterdir())) == 2
    assert lake.events().count() == count + done.events
    assert list(Path(lake.root, "staging").rglob("*.parquet")) == []


def test_a_trace_counts_once_however_it_is_stored(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    from episub_router.pipeline.ingest import ingest

    traces = tmp_path / "star"
    count = write_star(traces)
    for path in sorted(traces.iterdir()):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    both = ingest(spark, lake, [str(traces)])
    assert (len(both.added), both.events) == (4, count)
    later = ingest(spark, lake, [str(traces / "*.gz")])
    assert (len(later.added), len(later.known)) == (0, 4)


def test_an_earlier_copy_of_a_file_that_has_grown_is_not_counted_again(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    from episub_router.pipeline.ingest import ingest

    traces = tmp_path / "traces"
    count = write_star(traces, messages=40)
    grown = (traces / "node-1.pb").read_bytes()
    (traces / "node-1-of-yesterday.pb").write_bytes(grown[: 2 * len(grown) // 3])
    done = ingest(spark, lake, [str(traces)], "r")
    assert (done.events, done.quarantined, len(done.added)) == (count, 0, 4)


def test_a_file_without_a_header_joins_the_run_beside_it(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Be that run ingested with it or before; beside several runs, the file is refused by name."""
    from episub_router.pb.trace_pb2 import TraceEvent
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import LakeError

    def named(path: Path, run: str | None, node: int) -> None:
        events = node_events(node)
        if run is not None:
            header = TraceEvent(type=TraceEvent.JOIN, peerID=peer(node), timestamp=START)
            header.header.run = run
            events.insert(0, header)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(delimited(events))

    traces = tmp_path / "dir"
    named(traces / "a.pb", "the run", 1)
    named(traces / "b.pb", None, 2)
    done = ingest(spark, lake, [str(traces)])
    assert {entry.run for entry in done.added} == {"the run"}
    named(traces / "c.pb", None, 3)
    later = ingest(spark, lake, [str(traces / "c.pb")])
    assert later.runs == ["the run"]
    named(traces / "d.pb", "another", 4)
    named(traces / "e.pb", None, 5)
    with pytest.raises(LakeError, match=r"e\.pb has no header .* runs another, the run"):
        ingest(spark, lake, [str(traces)])
    named(tmp_path / "alone" / "f.pb", None, 6)
    assert ingest(spark, lake, [str(tmp_path / "alone")]).runs == ["alone"]


def test_a_thousand_damaged_files(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Two flipped bits in each, of every format. In PB and JSON each costs at most the event that
    it is in, and all others are as they were."""
    import pyarrow as pa

    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.reading.files import read_together
    from episub_router.pipeline.record import ENCODED, RECORD
    from episub_router.trace.reading.json_lines import to_json

    rng = random.Random(3)
    traces, whole = tmp_path / "traces", tmp_path / "whole"
    traces.mkdir()
    whole.mkdir()
    columns = ("event", "peer", "time", "message", "remote", "topic", "parts")
    simulated = tmp_path / "simulated.parquet"
    (scenario,) = loading.load("scale").scenarios({"network.nodes": 5}).values()
    run(scenario, 1, trace=simulated)
    for number in range(1000):
        made = node_events(number % 4, messages=2, begin=number)
        ending = ("pb", "pb", "json", "pb.gz", "parquet")[number % 5]
        path = traces / f"{number}.{ending}"
        if ending == "json":
            raw = "".join(to_json(event) + "\n" for event in made).encode()
        else:
            raw = delimited(made)
        if ending in ("pb", "json"):
            (whole / path.name).write_bytes(raw)
        elif ending == "pb.gz":
            raw = gzip.compress(raw)
        else:
            raw = simulated.read_bytes()
        damaged = bytearray(raw)
        for _ in range(2):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
    sound: dict[str, Counter[str]] = defaultdict(Counter)
    of_whole = read_together(((str(path), path.name, {}) for path in whole.iterdir()), "r")
    for row in pa.Table.from_batches(of_whole, schema=ENCODED).cast(RECORD).to_pylist():
        if row["status"] == "event":
            sound[row["file"]][repr([row[name] for name in columns])] += 1
    assert len(sound) == 600
    done = ingest(spark, lake, [str(traces)], "r")
    assert len(done.added) == 1000
    of_files = lake.events().groupBy("file").count().collect()
    counted = {row.file: row["count"] for row in of_files}
    assert {entry.file: entry.events for entry in done.added if entry.events} == counted
    bad = lake.records().where("status = 'quarantined'")
    assert bad.count() == done.quarantined > 100
    assert bad.where("detail IS NULL OR file IS NULL").count() == 0
    found: dict[str, Counter[str]] = defaultdict(Counter)
    readable = lake.events().where("file LIKE '%.pb' OR file LIKE '%.json'")
    for event in readable.select("file", *columns).collect():
        values = [event[name] for name in columns[:-1]]
        parts = [part.asDict() for part in event.parts] if event.parts is not None else None
        found[Path(event.file).name][repr([*values, parts])] += 1
    for name, wanted in sound.items():
        assert (wanted - found[name]).total() <= 2


def test_a_lake_at_a_uri_is_like_a_local_one(spark: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.ingest import ingest, listed
    from episub_router.pipeline.lake import Lake

    traces, lake = tmp_path / "star [1]", Lake(spark, str(tmp_path / "lake"))
    write_star(traces)
    (traces / "node-1.pb.gz").write_bytes(gzip.compress((traces / "node-1.pb").read_bytes()))
    (traces / "node-1.pb").unlink()
    paths = sorted(path.name for path in traces.iterdir())
    for name in ("under-way.tmp", ".hidden", "_begun"):
        (traces / name).write_bytes(b"?")
    for name in ("mp", "xtmp", ".tmp.p"):
        (traces / name).write_bytes(name.encode())
    uri = f"file:{traces}"
    there = [Path(file.path).name for file in listed(uri)]
    assert there == ["mp", *paths, "xtmp"]
    for name in ("mp", "xtmp", "under-way.tmp"):
        (traces / name).unlink()
    far = Lake(spark, f"file://{tmp_path}/far")
    ours, theirs = (ingest(spark, to, [at]) for to, at in ((lake, str(traces)), (far, uri)))
    assert ours == theirs
    assert ingest(spark, far, [uri]).added == ()
    key = ["file", "offset", "status"]
    found, wanted = (table.records().orderBy(*key).collect() for table in (far, lake))
    assert found == wanted
    table = spark.createDataFrame([("a b/c", 1)], "run string, value int")
    for _ in range(2):
        assert len(far.write("gold", "t", table, ["a b/c"]).collect()) == 1
    assert far.tables("gold") == ["t"]


@pytest.mark.spark_processes
def test_traces_are_a_data_source_of_sparks(jvm: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.reading.source import TraceDataSource

    count = write_star(tmp_path / "star")
    jvm.dataSource.register(TraceDataSource)
    found = jvm.read.format("libp2ptrace").option("run", "r").load(str(tmp_path / "star"))
    assert found.where("run = 'r' AND status = 'event'").count() == count


def test_a_large_file_at_a_uri_is_never_in_memory(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Some events, and nothing: more than a Java of 1 GB has; Sail bounds no memory."""
    from episub_router.pipeline import session
    from episub_router.pipeline.ingest import ingest

    size = (100 if session.is_remote(spark) else 1100) << 20
    traces = tmp_path / "large"
    traces.mkdir()
    with (traces / "node.pb").open("wb") as file:
        file.write(delimited(node_events(1)))
        file.truncate(size)
    done = ingest(spark, lake, [f"file:{traces}"])
    assert (done.events, done.added[0].bytes) == (len(node_events(1)), size)
    assert done.quarantined > 0


NAMED = "a=b 50%41:ü/[c]"
"""A run whose name engines escape, and each in its own way."""


def test_a_run_of_whatever_name(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Beside others, that one alone is answered, read, and removed."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer, on_demand

    for number, name in enumerate((NAMED, "a", "a=b 50A:ü")):
        write_star(tmp_path / f"{number}", messages=number + 1)
        ingest(spark, lake, [str(tmp_path / f"{number}")], name)
    count = lake.events([NAMED]).count()
    assert {row.run for row in lake.events([NAMED]).collect()} == {NAMED}
    assert count < lake.events(["a"]).count() < lake.events().count()
    for _ in answer(lake, AnswerParams(), [NAMED]):
        pass
    for layer, table, rows in (("silver", "deliveries", 4), ("gold", "messages", 1)):
        assert lake.look(layer, table).to_table()["run"].to_pylist() == [NAMED] * rows
        assert lake.look(layer, table, [NAMED]).count_rows() == rows
        assert [row.run for row in lake.read(layer, table, [NAMED]).collect()] == [NAMED] * rows
    assert on_demand(lake, "rpcs", [NAMED]).count() > 0
    assert lake.traced(NAMED, "deliver").count_rows() == 4
    lake.remove(NAMED)
    assert lake.look("gold", "messages").count_rows() == 0
    assert lake.runs() == ["a", "a=b 50A:ü"]
    assert lake.vacuum() == [f"{lake.root}/staging"]
    assert not [path for path in Path(lake.root).rglob("*") if "50%2541" in path.name]


def test_tables_replace_their_runs_only(spark: SparkSession, lake: Lake) -> None:
    from episub_router.pipeline.lake import LakeError

    def table(*rows: tuple[str, int]) -> object:
        return spark.createDataFrame(rows, "run string, value int")

    lake.write("gold", "t", table(("a b/c", 1), ("d", 2)), ["a b/c", "d"])  # type: ignore[arg-type]
    lake.write("gold", "t", table(("a b/c", 3)), ["a b/c"])  # type: ignore[arg-type]
    assert sorted(map(tuple, lake.read("gold", "t").collect())) == [("a b/c", 3), ("d", 2)]
    empty = lake.write("gold", "t", table(("d", 0)).where("false"), ["d"])  # type: ignore[attr-defined]
    assert lake.read("gold", "t", ["d", "a b/c"]).count() == 1
    assert empty.collect() == []
    assert lake.read("gold", "t").count() == 1
    assert lake.tables("gold") == ["t"]
    with pytest.raises(LakeError, match="no table u"):
        lake.read("gold", "u")


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("values", [(3, 4, 5), ()])
def test_a_table_whose_writer_is_killed_is_whole(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    values: tuple[int, ...],
) -> None:
    """Whenever that is, a run has its old rows or its new ones, or, between two moves, none until
    it is repeated."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.storage import Storage

    kind: Any = Storage
    lake = Lake(spark, f"{scheme}{tmp_path}/lake")
    schema = "run string, value int"
    # Two files each.
    old = spark.createDataFrame([("r", 1), ("r", 2)], schema).repartition(2)
    new = spark.createDataFrame([("r", value) for value in values], schema).repartition(2)

    class Killed(Exception):
        pass

    def found() -> list[int]:
        return sorted(row.value for row in lake.read("gold", "t", ["r"]).collect())

    seen, step, is_done = set(), 0, False
    while not is_done:
        lake.write("gold", "t", old, ["r"])
        assert found() == [1, 2]
        left = step

        def rename(
            self: object, path: str, to: str, actual: Callable[..., bool] = kind.rename
        ) -> bool:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return actual(self, path, to)

        def remove(self: object, path: str, actual: Callable[..., None] = kind.remove) -> None:
            nonlocal left
            if left == 0:
                for file in [*Path(path.removeprefix("file:")).rglob("*.parquet")][:1]:
                    file.unlink()
                raise Killed
            left -= 1
            actual(self, path)

        with monkeypatch.context() as patched:
            patched.setattr(kind, "rename", rename)
            patched.setattr(kind, "remove", remove)
            try:
                lake.write("gold", "t", new, ["r"])
                is_done = True
            except Killed:
                pass
        seen.add(tuple(found()))
        if step % 2:
            lake.vacuum()
            assert tuple(found()) in ((1, 2), (), values)
            assert not Path(tmp_path, "lake", "staging").exists()
        step += 1
    assert tuple(found()) == values
    assert seen == {(1, 2), (), values}


def test_a_run_can_be_removed(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Others, of the same batch too, stay; and it can be ingested again."""
    from episub_router.pb.trace_pb2 import TraceEvent
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import LakeError

    traces = tmp_path / "both"
    traces.mkdir()
    for name, node in (("a", 1), ("b", 2)):
        header = TraceEvent(type=TraceEvent.JOIN, peerID=peer(node), timestamp=START)
        header.header.run = name
        (traces / f"{name}.pb").write_bytes(delimited([header, *node_events(node)]))
    first = ingest(spark, lake, [str(traces)])
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "run string, value int")
    lake.write("gold", "t", rows, ["a", "b"])
    lake.remove("a")
    assert lake.runs() == ["b"]
    assert {row.run for row in lake.records().select("run").collect()} == {"b"}
    assert [row.run for row in lake.read("gold", "t").collect()] == ["b"]
    with pytest.raises(LakeError, match=r"no run a in .*; there are b"):
        lake.remove("a")
    again = ingest(spark, lake, [str(traces)])
    assert [entry.run for entry in again.added] == ["a"]
    assert lake.records().count() == first.events + 2
    lake.remove("a")
    lake.remove("b")
    assert list(Path(lake.root, "bronze").iterdir()) == []


def test_what_is_left_over_can_be_removed(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    from episub_router.pipeline.ingest import ingest

    write_star(tmp_path / "star", nodes=2)
    ingest(spark, lake, [str(tmp_path / "star")])
    assert lake.vacuum() == [f"{lake.root}/staging"]
    (batch,) = Path(lake.root, "bronze").iterdir()
    before = sorted(Path(lake.root).rglob("*"))
    left = [Path(lake.root, "bronze", "batch=x"), batch / "run=gone", Path(lake.root, "staging/y")]
    for path in left:
        path.mkdir(parents=True)
    assert len(lake.vacuum()) == 3
    assert sorted(Path(lake.root).rglob("*")) == before


def test_small_batches_are_put_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is killed, each record is there once, and it can be repeated."""
    from episub_router.pipeline.bronze.compaction import compact
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake

    lake = Lake(spark, str(tmp_path / "lake"))
    write_star(tmp_path / "star", nodes=3)
    for node in range(3):
        ingest(spark, lake, [str(tmp_path / "star" / f"node-{node}.pb")], "star")
    entries = lake.manifest()

    def records() -> list[str]:
        return sorted(map(str, lake.records().collect()))

    def batches() -> int:
        return len(list(Path(lake.root, "bronze").iterdir()))

    before = records()
    commit = lake.commit
    with monkeypatch.context() as patched:
        patched.setattr(lake, "commit", None)
        with pytest.raises(TypeError):
            compact(lake)
    assert (records(), batches()) == (before, 3)
    with monkeypatch.context() as patched:

        def committed(batch: str, made: list[Entry]) -> None:
            commit(batch, made)
            patched.setattr(lake, "forget_replaced", None)

        patched.setattr(lake, "commit", committed)
        with pytest.raises(TypeError):
            compact(lake)
    assert (records(), batches()) == (before, 4)
    files = sorted(entry.file for entry in entries)
    assert [entry.file for entry in lake.manifest()] == files
    lake.vacuum()
    assert (records(), batches()) == (before, 1)
    assert compact(lake) == []
    assert ingest(spark, lake, [str(tmp_path / "star")], "star").added == ()
    lake.remove("star")
    assert (lake.manifest(), batches()) == ([], 0)


def test_two_writers_of_different_runs(spark: SparkSession, lake: Lake) -> None:
    """At the same time, and with other columns: those of the last one, null where they weren't."""
    tables = {
        name: spark.createDataFrame([(name, number)] * 20, "run string, value int")
        for number, name in enumerate("ab")
    }
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            list(pool.map(lambda name: lake.write("gold", "t", tables[name], [name]), tables))
            found = lake.read("gold", "t").groupBy("run").count().collect()
            assert {row.run: row["count"] for row in found} == {"a": 20, "b": 20}
    wider = spark.createDataFrame([("c", 3, "new")], "run string, value int, more string")
    lake.write("gold", "t", wider, ["c"])
    rows = lake.read("gold", "t").distinct().orderBy("run").collect()
    assert [(row.run, row.value, row.more) for row in rows] == [
        ("a", 0, None), ("b", 1, None), ("c", 3, "new"),
    ]  # fmt: skip
