"""Every table is the same on Spark, on Sail, and at a server of Spark Connect."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import children
from tests.pipeline.files import write_star
from tests.pipeline.records import put_records
from tests.pipeline.traces import RandomTrace

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake

pytestmark = pytest.mark.spark_processes

_ANSWERED = """
import sys
from episub_router.pipeline import session
from episub_router.pipeline.lake import Lake
from tests.pipeline.test_engines import answered

engine, remote, root, out = sys.argv[1:]
spark = session.start(None, {}, engine, remote or None)
with open(out, "w") as file:
    file.write(answered(Lake(spark, root)))
spark.stop()
"""


def answered(lake: Lake) -> str:
    """All tables of a lake, made anew: a line for each row, which is the same whatever the order of
    rows and columns, and the last digits of doubles."""
    from episub_router.pipeline.engine import json_lines
    from episub_router.pipeline.lake import GOLD, SILVER
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import ANSWERS, FACTS, answer

    assert [name for name, _ in answer(lake, AnswerParams())] == [*FACTS, *ANSWERS]
    rows = [
        json.dumps([name, _rounded(json.loads(line))], sort_keys=True)
        for layer in (SILVER, GOLD)
        for name in lake.tables(layer)
        for line in json_lines(lake.read(layer, name))
    ]
    return "\n".join(sorted(rows))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def wanted(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A lake of two runs, and their tables by the session of all tests."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake

    directory = tmp_path_factory.mktemp("engines")
    write_star(directory / "star")
    lake = Lake(spark, str(directory / "lake"))
    ingest(spark, lake, [str(directory / "star")])
    put_records(lake, {"random": RandomTrace(0).events})
    return directory / "lake", answered(lake)


@pytest.mark.parametrize(("engine", "remote"), [("sail", ""), ("spark", "local[1]")])
def test_all_tables_are_the_same(
    wanted: tuple[Path, str], engine: str, remote: str, tmp_path: Path
) -> None:
    """PySpark starts a server of Spark Connect itself for `--remote local`."""
    pytest.importorskip("pysail" if engine == "sail" else "grpc")
    lake, rows = wanted
    shutil.copytree(lake, tmp_path / "lake")
    for layer in ("silver", "gold"):
        shutil.rmtree(tmp_path / "lake" / layer)
    out = tmp_path / "rows"
    children.run(
        [sys.executable, "-c", _ANSWERED, engine, remote, str(tmp_path / "lake"), str(out)],
        check=True, timeout=500,
    )  # fmt: skip
    assert out.read_text().splitlines() == rows.splitlines()
    assert len({json.loads(row)[0] for row in rows.splitlines()}) > 30
