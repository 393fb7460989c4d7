"""Every table is the same on Sail, on Spark, and at a server of Spark Connect."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import children
from tests.pipeline.traces import PATIENCE, WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from episub_router.pipeline.lake import Lake
    from tests.pipeline.conftest import Swept

RUNS = [
    "star",
    "random 0",
    "random 2",
    "parted",
    "jumped",
    "sparse kill",
    "full queue",
    "episub-churn-1",
]
"""Made by hand, drawn, and simulated."""

_AT_A_SERVER = """
import sys
from episub_router.pipeline import session
from episub_router.pipeline.lake import Lake
from tests.pipeline.test_engines import answered

root, *runs = sys.argv[1:]
spark = session.start(remote="local[1]", conf={"spark.sql.shuffle.partitions": "2"})
answered(Lake(spark, root), runs)
spark.stop()
"""


_CHILDREN_BESIDE_SAIL = """
import signal, subprocess, sys
from episub_router.pipeline import session

spark = session.start(engine=session.SAIL)
for number in range(400):
    if number % 10 == 0:
        spark.range(3).count()
    forked = subprocess.Popen([sys.argv[1]], preexec_fn=lambda: signal.getsignal(signal.SIGINT))
    assert forked.wait() == 0, number
"""


def answered(lake: Lake, runs: Sequence[str]) -> None:
    """Have all tables of some runs made."""
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import ANSWERS, FACTS, answer

    params = AnswerParams(window=WINDOW, patience=PATIENCE, looks=20)
    assert [name for name, _ in answer(lake, params, runs)] == [*FACTS, *ANSWERS]


def rows_of(lake: Lake, runs: Sequence[str]) -> list[str]:
    """The rows of all tables, as text that is the same whatever the order of rows and columns, and
    the last digits of doubles."""
    return sorted(
        json.dumps([name, rounded(row)], sort_keys=True)
        for layer in ("silver", "gold")
        for name in lake.tables(layer)
        for row in lake.look(layer, name, runs).to_table().to_pylist()
    )


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def copied(lake: Lake, to: Path) -> str:
    """A lake with the records alone."""
    for layer in ("bronze", "manifest"):
        shutil.copytree(Path(lake.root, layer), to / layer)
    return str(to)


@pytest.mark.spark_processes
@pytest.mark.parametrize("settings", ["FOR_LITTLE", "FOR_SOME"])
def test_all_tables_are_the_same(
    settings: str, swept: Swept, jvm: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With settings for some more data, questions are compiled, and tables read again."""
    pytest.importorskip("pysail")
    from episub_router.pipeline import engine, session
    from episub_router.pipeline.lake import Lake

    usual = {key: jvm.conf.get(key) for key in session.FOR_LITTLE if key.startswith("spark.sql")}
    if settings == "FOR_SOME":
        monkeypatch.setattr(engine, "KEPT_BYTES", 0)
        for key in usual.keys() - session.FOR_SOME.keys():
            jvm.conf.unset(key)
    lake = Lake(jvm, copied(swept.lake, tmp_path / "lake"))
    answered(lake, RUNS)
    for key, value in usual.items():
        jvm.conf.set(key, value)
    found = rows_of(lake, RUNS)
    assert found == rows_of(swept.lake, RUNS)
    assert len({json.loads(row)[0] for row in found}) > 35


@pytest.mark.spark_processes
def test_a_server_of_spark_connect_makes_the_same_tables(swept: Swept, tmp_path: Path) -> None:
    """PySpark starts it itself for `--remote local`."""
    pytest.importorskip("grpc")
    from episub_router.pipeline.lake import Lake

    runs = ["star", "random 0"]
    root = copied(swept.lake, tmp_path / "lake")
    children.run([sys.executable, "-c", _AT_A_SERVER, root, *runs], check=True, timeout=500)
    assert rows_of(Lake(None, root), runs) == rows_of(swept.lake, runs)


@pytest.mark.spark
def test_children_run_beside_sail() -> None:
    """As Java does, which PySpark starts with a function to call before; one in 150 was aborted."""
    pytest.importorskip("pysail")
    true = shutil.which("true")
    assert true is not None
    children.run([sys.executable, "-c", _CHILDREN_BESIDE_SAIL, true], check=True)
