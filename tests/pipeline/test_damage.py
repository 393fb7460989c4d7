"""What damaged traces say is believed where something else speaks for it, and they are said to be
damaged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.files import write_star

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NODES, MESSAGES = 4, 60


@pytest.fixture
def star(tmp_path: Path) -> Path:
    """Traces of a star of four nodes, with sixty messages, a second each."""
    write_star(tmp_path / "star", NODES, MESSAGES)
    return tmp_path / "star"


def told(spark: SparkSession, traces: Path) -> tuple[Any, str]:
    """The quality of the run, and the headline of its report."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.report.gathering import gather
    from episub_router.pipeline.report.params import ReportParams
    from episub_router.pipeline.report.tables import headline
    from episub_router.pipeline.run import answer

    lake = Lake(spark, str(traces.parent / "lake"))
    ingest(spark, lake, [str(traces)])
    for _ in answer(lake, AnswerParams()):
        pass
    (quality,) = lake.read("gold", "quality").collect()
    return quality, headline(gather(lake, ["star"], [], ReportParams()))


def test_flipped_bits_make_no_peers_and_no_days(spark: SparkSession, star: Path) -> None:
    rng = random.Random(4)
    for path in star.iterdir():
        data = bytearray(path.read_bytes())
        for _ in range(len(data) // 1000):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    quality, headline = told(spark, star)
    assert quality.quarantined > 40
    assert quality.peers == NODES
    assert quality.untraced_peers == 0
    # From the joins to the last message.
    assert quality.end - quality.begin < (MESSAGES + 60) * 10**9
    assert "are damaged" in headline
    # Whatever is lost or late is of a message that was published.
    assert quality.messages <= MESSAGES


def test_a_trace_that_is_cut_short_is_damaged(spark: SparkSession, star: Path) -> None:
    path = star / "node-2.pb"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    quality, headline = told(spark, star)
    assert quality.cut_short == 1
    assert quality.silent_peers == 0
    assert "are damaged" in headline


def test_a_sound_trace_is_not(spark: SparkSession, star: Path) -> None:
    quality, headline = told(spark, star)
    assert (quality.cut_short, quality.quarantined) == (0, 0)
    assert "damaged" not in headline
