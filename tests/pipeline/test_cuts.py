"""A network that is parted, and a peer that is stopped, are named as what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.oracle import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEERS = [f"p{number}" for number in range(8)]
BEGIN, END = 20, 50


def events(run: str, apart: set[str], *, silent: bool, lost: int) -> list[dict[str, Any]]:
    """Everybody gets something of everybody twice a second, and a message of p0 once; between BEGIN
    and END, `apart` have nothing of the others, and get the messages at END, but number `lost`.
    While they are `silent`, they trace nothing."""
    made: list[dict[str, Any]] = []

    def add(event: str, peer: str, time: float, **columns: Any) -> None:
        made.append({"run": run, "event": event, "peer": peer, "time": int(time * SECOND),
                     "topic": "t", **columns})  # fmt: skip

    for peer in PEERS:
        add("join", peer, 0)
        add("neighbor", peer, 1, remote="p0", state="up")
    for second in range(2, 70):
        cut = BEGIN <= second < END
        add("publish", "p0", second, message=f"m{second}")
        for peer in PEERS:
            if cut and silent and peer in apart:
                continue
            for other in PEERS:
                if other != peer and not (cut and (peer in apart) != (other in apart)):
                    add("recv", peer, second + 0.3, remote=other, parts=[])
        for peer in PEERS[1:]:
            late = cut and peer in apart
            if not (late and second == lost):
                at = END + 0.1 if late else second + 0.1
                add("deliver", peer, at, message=f"m{second}", remote="p0", hops=1)
    return made


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, dict[str, list[Any]]]:
    import pyarrow as pa

    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.record import RECORD
    from episub_router.pipeline.run import Tables

    runs = [
        *events("parted", set(PEERS[4:]), silent=False, lost=33),
        *events("stopped", {"p7"}, silent=True, lost=33),
        *events("whole", set(), silent=False, lost=33),
    ]
    rows = [
        {"status": "event", "file": "f", "late": False, "offset": at, **event}
        for at, event in enumerate(runs)
    ]
    params = AnswerParams(window=5.0, patience=5.0)
    records = spark.createDataFrame(pa.Table.from_pylist(rows, RECORD)).localCheckpoint()
    tables = Tables({"records": records}, params)
    by_run: dict[str, dict[str, list[Any]]] = {}
    kept = ("clocks", "spans", "publishes", "deliveries", "changes", "links", "activity",
            "subscriptions", "arrivals", "contacts", "explained")  # fmt: skip
    with tables.kept(*kept):
        for name in ("cuts", "rest"):
            by_run[name] = {}
            for row in tables(name).collect():
                by_run[name].setdefault(row.run, []).append(row)
    return by_run


def test_two_halves(found: dict[str, dict[str, list[Any]]]) -> None:
    (cut,) = found["cuts"]["parted"]
    assert (cut.kind, cut.peers, cut["count"], cut.others) == ("cut", PEERS[4:], 4, 4)
    assert (cut.begin, cut.end) == (BEGIN * SECOND, END * SECOND)
    # What was published less than five seconds before the end came in time.
    assert (cut.late, cut.lost) == (4 * 25, 4)
    assert set(cut.silent_links) == {f"{a} - {b}" for a in PEERS[:4] for b in PEERS[4:]}


def test_a_stopped_peer(found: dict[str, dict[str, list[Any]]]) -> None:
    (cut,) = found["cuts"]["stopped"]
    assert (cut.kind, cut.peers, cut.others) == ("stopped", ["p7"], 7)
    assert (cut.begin, cut.end) == (BEGIN * SECOND, END * SECOND)
    assert (cut.late, cut.lost) == (25, 1)


def test_the_rest_is_judged_without_it(found: dict[str, dict[str, list[Any]]]) -> None:
    assert "whole" not in found["cuts"]
    for run, explained in (("parted", 104), ("stopped", 26), ("whole", 0)):
        (rest,) = found["rest"][run]
        assert (rest.explained, rest.late) == (explained, 0)
        assert rest.live == rest.delivered == 68 * 8 - explained
        assert rest.latency_p50 == SECOND // 10
        assert rest.latency_p99 <= 5.1 * SECOND
