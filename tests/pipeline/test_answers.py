"""Facts and answers on small random traces: what Spark finds is what the oracle finds."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline import oracle, oracle_groups
from tests.pipeline.oracle import SECOND, Event
from tests.pipeline.traces import DEADLINE, PATIENCE, WINDOW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from tests.pipeline.conftest import Swept

pytestmark = pytest.mark.spark


class Answers:
    """All answers of some runs."""

    def __init__(self, swept: Swept) -> None:
        self._swept = swept

    def of(self, table: str, run: str, **wanted: Any) -> list[Row]:
        """The rows of a run that have the `wanted` values."""
        return [
            row
            for row in self._swept.table(table, run)
            if all(row[name] == value for name, value in wanted.items())
        ]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) or isinstance(wanted, float):
        return found is not None and wanted is not None and math.isclose(found, wanted)
    return bool(found == wanted)


def check(found: Row, wanted: dict[str, Any], *besides: str) -> None:
    """All columns of `found` but those in `besides`, which the oracle doesn't have, are equal."""
    both = [name for name in found.__fields__ if name in wanted]
    assert set(found.__fields__) - {*both} == {*besides}
    wrong = {n: (found[n], wanted[n]) for n in both if not same(found[n], wanted[n])}
    assert not wrong


def test_every_answer_is_the_oracles(swept: Swept) -> None:
    answers = Answers(swept)
    for run, events in swept.random.items():
        _check_messages(answers, run, events)
        _check_traffic(answers, run, events)
        _check_overlay(answers, run, events)
        _check_sds(answers, run, events)


def test_nobody_knows_the_answers_of_a_damaged_run_and_nothing_crashes(swept: Swept) -> None:
    (quality,) = swept.table("quality", "damaged")
    assert quality.outliers > 0
    assert swept.table("messages", "damaged")


def _check_messages(answers: Answers, run: str, events: list[Event]) -> None:
    wanted = oracle.messages(events, PATIENCE * SECOND)
    found = answers.of("messages", run)
    assert {row.message for row in found} == set(wanted)
    for row in found:
        check(row, wanted[row.message], "run", "message", "source", "size", "inferred")
    groups = oracle_groups.groups(events, PATIENCE * SECOND, DEADLINE * SECOND)
    of_groups = answers.of("groups", run)
    assert {(row.trait, row.value) for row in of_groups} == set(groups)
    for row in of_groups:
        check(row, groups[row.trait, row.value], "run", "trait", "value")
    key = ("run", "topic", "window")
    for topic in {row["topic"] for row in wanted.values()}:
        of_topic = [row for row in wanted.values() if row["topic"] == topic]
        (whole,) = answers.of("spread", run, topic=topic, window=None)
        check(whole, oracle.spread(of_topic), *key)
        windows = defaultdict(list)
        for row in of_topic:
            windows[row["published"] // (WINDOW * SECOND) * WINDOW * SECOND].append(row)
        assert len(answers.of("spread", run, topic=topic)) == len(windows) + 1
        for window, rows in windows.items():
            (one,) = answers.of("spread", run, topic=topic, window=window)
            check(one, oracle.spread(rows), *key)
        latencies = [latency for row in of_topic for latency in row["latencies"]]
        cdf = sorted(answers.of("latency_cdf", run, topic=topic), key=lambda r: r.millisecond)
        for row in cdf:
            upto = sum(latency // 1_000_000 <= row.millisecond for latency in latencies)
            assert row.cumulative == upto
            assert row.share == pytest.approx(upto / len(latencies))


def _check_traffic(answers: Answers, run: str, events: list[Event]) -> None:
    causes = oracle.duplicate_causes(events)
    found = defaultdict(int)
    for row in answers.of("duplicate_causes", run, window=None):
        found[row.cause] += row["count"]
    assert found == causes
    control = {
        row.kind: (row.sends, row.ids) for row in answers.of("control_traffic", run, window=None)
    }
    assert control == oracle.control(events)
    load = oracle.load(events)
    rows = answers.of("load", run)
    assert {row.peer for row in rows} == set(load)
    for row in rows:
        for name in row.__fields__:
            if name not in ("run", "peer") and not name.endswith("payload_bytes"):
                assert (row[name] or 0) == load[row.peer].get(name, 0)
    traced = {event["peer"] for event in events}
    (quality,) = answers.of("quality", run)
    named = {event["remote"] for event in events if event["remote"]}
    assert quality.untraced_peers == len(named - traced)
    for row in answers.of("balance", run):
        of_all = [other[row.figure] for other in rows if other.peer in traced]
        values = [value for value in of_all if value is not None]
        assert row.gini == pytest.approx(oracle.gini(values), abs=1e-9)
    losses = {
        (topicless.kind, topicless.reason): 0 for topicless in answers.of("loss_reasons", run)
    }
    for row in answers.of("loss_reasons", run, window=None):
        losses[row.kind, row.reason] += row["count"]
    assert losses == oracle.losses(events)


def _check_overlay(answers: Answers, run: str, events: list[Event]) -> None:
    rtts = defaultdict(list)
    for event in oracle.by_kind(events, "rtt"):
        rtts[event["peer"], event["remote"]].append(event["rtt"])
    means = {pair: sum(values) / len(values) for pair, values in rtts.items()}
    end = oracle.settled(events)
    looks = answers.of("overlay", run)
    assert {row.time for row in looks} <= {*range(0, end + 1, WINDOW * SECOND), end}
    overlay = "active" if oracle.by_kind(events, "neighbor") else "eager"
    assert any(row.time == end and row.kind == overlay for row in looks)
    for row in looks:
        there = oracle.neighbours_at(events, row.kind, row.topic, row.time, PATIENCE * SECOND)
        check(row, oracle.graph(there), "run", "topic", "kind", "time", "proximity_ratio")
        known = [means[a, b] for a, others in there.items() for b in others if (a, b) in means]
        ratio = None
        if known:
            ratio = (sum(known) / len(known)) / (sum(means.values()) / len(means))
        assert same(row.proximity_ratio, ratio)


def _check_sds(answers: Answers, run: str, events: list[Event]) -> None:
    violations = {(v.peer, v.message, v.dependency) for v in answers.of("sds_violations", run)}
    assert violations == oracle.sds_violations(events)
    sds = oracle.by_kind(events, "sds")
    logs: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for event in sds:
        logs[event["peer"]] |= set()
        if event["sds"]["purpose"] == "content" or event["sds"]["action"] == "deliver":
            logs[event["peer"]].add((event["sds"]["lamport"], event["sds"]["message"]))
    (channel,) = answers.of("sds_channels", run)
    assert channel.participants == len(logs)
    assert channel.different_logs == len({tuple(sorted(log)) for log in logs.values()})
    assert channel.violations == len(violations)
    for row in answers.of("sds_messages", run):
        assert row.copies == sum((row.lamport, row.message) in log for log in logs.values())
        assert row.participants == len(logs)
        acts = [e for e in sds if e["sds"]["message"] == row.message]
        assert row.resends == sum(e["sds"]["purpose"] == "resend" for e in acts)
        certain = [e["time"] for e in acts if e["sds"]["probability"] == 0.0]
        assert row.ack_latency == (min(certain) - row.sent if certain else None)


def test_latencies_before_correction_know_the_publisher_s_clock(spark: SparkSession) -> None:
    """Also where the publisher's own delivery isn't traced."""
    from episub_router.pipeline.facts.clocks import CLOCKS
    from episub_router.pipeline.facts.spread import deliveries, publishes

    columns = "run string, event string, peer string, remote string, time long, correction long, " \
        "offset long, topic string, message string, size int, hops int"  # fmt: skip
    rows = [
        ("r", "publish", "a", None, 100, 50, 0, "t", "m", 1, None),
        ("r", "deliver", "b", "a", 130, 7, 0, "t", "m", 1, 1),
        ("r", "deliver", "b", "a", 140, 7, 1, "t", "m", 1, 1),
        ("r", "deliver", "b", "a", 160, 7, 2, "t", "m", 1, 1),
    ]
    events = spark.createDataFrame(rows, columns)
    none = spark.createDataFrame([], CLOCKS)
    for began, repeats in (([], 2), ([("r", "b", 90), ("r", "b", 150)], 1)):
        starts = spark.createDataFrame(began, "run string, peer string, time long")
        (found,) = deliveries(events, publishes(events), none, starts).collect()
        assert (found.latency, found.raw_latency) == (30, (130 + 7) - (100 + 50))
        # What a new process of the peer is given isn't repeated to it.
        assert found.repeats == repeats


def test_the_outcome_is_looked_at_before_the_nodes_are_stopped(spark: SparkSession) -> None:
    """Of a run whose nodes are stopped one by one, that is at the last delivery; of one whose nodes
    go while there is traffic, at the end."""
    from episub_router.pipeline.facts import lives
    from episub_router.pipeline.facts.contacts import contacts
    from episub_router.pipeline.facts.spans import spans
    from episub_router.pipeline.params import AnswerParams

    rows = [
        ("stopped", "join", None, 0), ("stopped", "node", "crash", 5),
        ("stopped", "deliver", None, 9), ("stopped", "node", "leave", 10),
        ("stopped", "neighbor", "down", 12),
        ("left", "join", None, 0), ("left", "node", "leave", 5),
        ("left", "deliver", None, 9), ("left", "recv", None, 12),
    ]  # fmt: skip
    made = [
        (run, "f", "a", at * SECOND, at, event, state, "t", "b", False, None, None)
        for run, event, state, at in rows
    ]
    events, params = spark.createDataFrame(made, CHANGE), AnswerParams()
    found = spans(contacts(events, params), lives.changes(events), params).collect()
    settled = {row.run: (row.end, row.settled) for row in found}
    assert settled == {
        "stopped": (12 * SECOND, 9 * SECOND), "left": (12 * SECOND, 12 * SECOND)
    }  # fmt: skip


def test_windows_are_exact_to_the_nanosecond(spark: SparkSession) -> None:
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.sql import window_of

    size = 7 * SECOND
    times = [(1_700_000_000 * SECOND // size + window) * size + add
             for window in range(9) for add in (-1, 0, 1)]  # fmt: skip
    times.append(-1)
    table = spark.createDataFrame([(time,) for time in times], "time long")
    found = table.select("time", window_of("time", AnswerParams(window=7.0))).collect()
    assert dict(found) == {time: time // size * size for time in times}


CHANGE = """run string, file string, peer string, time long, offset long, event string,
    state string, topic string, remote string, late boolean, kind string, rtt long"""


def test_what_is_told_at_the_same_time_is_in_the_order_of_files(spark: SparkSession) -> None:
    from episub_router.pipeline.facts import lives

    rows = [
        ("r", "part-0", "a", 5, 0, "graft", "eager", "t", "b", False, None, None),
        ("r", "part-1", "a", 5, 0, "prune", "lazy", "t", "b", False, None, None),
    ]
    for told in (rows, rows[::-1]):
        links = lives.links(spark.createDataFrame(told, CHANGE).coalesce(1)).orderBy("kind")
        assert [(row.kind, row.since, row.until) for row in links.collect()] == [
            ("eager", 5, 5), ("lazy", 5, None)
        ]  # fmt: skip


def test_one_wrong_time_makes_no_run_of_years(spark: SparkSession) -> None:
    from episub_router.pipeline.answers import overlay
    from episub_router.pipeline.facts import lives
    from episub_router.pipeline.facts.contacts import contacts
    from episub_router.pipeline.facts.spans import spans
    from episub_router.pipeline.params import AnswerParams

    start = 1_700_000_000 * SECOND
    rows = [
        ("r", "f", peer, start + at * SECOND, at, *event, "t", other, False, None, None)
        for peer, other in (("a", "b"), ("b", "a"))
        for at, event in ((0, ("join", None)), (1, ("neighbor", "up")), (100, ("recv", None)))
    ]
    wrong = ("r", "f", "a", start + 2**61, 101, "recv", None, "t", "b", False, None, None)
    events = spark.createDataFrame([*rows, wrong], CHANGE)
    params = AnswerParams(window=10.0, looks=4)

    def made(table: DataFrame) -> DataFrame:
        """Once, and not for each table that follows from it."""
        return spark.createDataFrame(table.toArrow(), table.schema)

    of_peers = made(contacts(events, params))
    there = made(spans(of_peers, lives.changes(events), params))
    end = start + 100 * SECOND
    assert there.collect() == [("r", start, end, 1, end)]
    links = made(lives.links(events))
    active = made(lives.activity(of_peers, there))
    none = spark.createDataFrame([], "run string, topic string")
    joined = made(lives.subscriptions(events, links, active, none, there, params))
    assert [row.ending for row in joined.collect()] == [None, None]
    rtts = spark.createDataFrame([], "run string, peer string, remote string, rtt long")
    looks = overlay.overlay(links, joined, rtts, there, params).orderBy("time").collect()
    after = [row.time // SECOND - start // SECOND for row in looks]
    # Every third window, since there may be four looks only.
    assert after == [10, 40, 70, 100]
    assert [row.links for row in looks] == [2] * 4


@settings(deadline=None)
@given(st.data())
def test_depths_follow_parents(data: st.DataObject) -> None:
    """Against walking up from each peer; cycles and chains that end nowhere have no depth."""
    pytest.importorskip("pyspark")
    pd = pytest.importorskip("pandas")
    from episub_router.pipeline.facts.spread import with_depths

    peers = [f"p{number}" for number in range(data.draw(st.integers(1, 20)))]
    rows = [(message, peer) for message in "mn" for peer in peers]
    parents = [data.draw(st.sampled_from([*peers, "elsewhere", None])) for _ in rows]
    hops = [data.draw(st.sampled_from([None, None, 0, 7, 2**31 - 1])) for _ in rows]
    trees = pd.DataFrame(rows, columns=["message", "peer"])
    trees = trees.assign(parent=parents, hops=pd.array(hops, dtype="Int32"))
    first = {
        row: {"hops": hop, "parent": parent}
        for row, parent, hop in zip(rows, parents, hops, strict=True)
    }
    found = with_depths(trees)["hops"]
    for (message, peer), depth in zip(rows, found, strict=True):
        assert (None if pd.isna(depth) else depth) == oracle.depth(first, message, peer)
