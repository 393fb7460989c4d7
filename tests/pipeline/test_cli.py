"""What the commands print."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from episub_router.cli import pipeline
from episub_router.cli.arguments import CommandError
from episub_router.cli.main import main
from tests import children
from tests.pipeline.files import write_star


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: x\n\nJVM stacktrace:\nat org.a",
            None,
        ),
        (
            "Job aborted due to stage failure: Task 0 failed:\n"
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            "  File \"worker.py\", line 1, in main\n    process()\nKeyError: 'latency.kind'\n\n"
            "\tat org.apache.spark.api.python.BasePythonRunner\n",
            "KeyError: 'latency.kind'",
        ),
        (
            "An exception was thrown from the Python worker. Please see the stack trace below.\n"
            "Traceback (most recent call last):\n"
            '  File "x.py", line 3, in f\nValueError: 3 nodes are too few\n',
            "ValueError: 3 nodes are too few",
        ),
        (
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n\nThe above exception "
            "was the cause\nTraceback (most recent call last):\n  File y\nValueError: no a\n",
            "ValueError: no a",
        ),
        ("", "Spark doesn't say what went wrong"),
    ],
)
def test_errors_of_spark_are_one_line(told: str, cause: str | None) -> None:
    assert pipeline._cause(told) == (cause or told.splitlines()[0])


def test_a_python_without_rich_is_one_line() -> None:
    """As the one that spark-submit finds may be."""
    code = "import sys; sys.modules['rich'] = None; from episub_router.cli.main import main"
    ran = children.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("episub: rich")
    assert ran.stderr.count("\n") == 1


def test_names_in_traces_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "run": "[/run]", "topic": "[b]:smile:", "window": None, "messages": 1, "reliability": 1.0,
        "latency_p50": None, "latency_p99": None, "rmr": 0.0, "ldh": 1.0, "mean_hops": None,
    }  # fmt: skip
    table = pytest.importorskip("pyarrow").Table.from_pylist([row])
    dataset = SimpleNamespace(to_table=lambda: table)
    lake: Any = SimpleNamespace(look=lambda *given: dataset)
    pipeline._print_verdict(lake, None)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split()[:2] == ["[/run]", "[b]:smile:"]


@pytest.mark.parametrize("command", [["pipeline", "show"], ["report", "run", "--out", "a.json"]])
def test_a_lake_that_is_not_there(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--lake", f"{tmp_path}/none"]) == 1
    assert capsys.readouterr().err == f"episub: there is no lake at {tmp_path}/none\n"


def test_garbage_that_is_ingested_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    done = SimpleNamespace(added=[], known=[], events=0, quarantined=7, runs=[])
    monkeypatch.setattr("episub_router.pipeline.ingest.ingest", lambda *given: done)
    arguments: Any = SimpleNamespace(input=["garbage"], run_name=None, answers=True)
    nothing: Any = SimpleNamespace(session=None)
    with pytest.raises(CommandError, match="no record of these files is an event of a trace"):
        pipeline._ingest(arguments, nothing)
    assert "7 records quarantined" in capsys.readouterr().out


def test_a_lake_that_nothing_can_be_written_to_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    from episub_router.pipeline import session

    monkeypatch.setattr(session, "start", None)
    write_star(tmp_path / "star")
    (tmp_path / "file").touch()
    lake = tmp_path / "file" / "lake"
    assert main(["pipeline", "ingest", str(tmp_path / "star"), "--lake", str(lake)]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.splitlines() == [f"episub: [Errno 20] Not a directory: '{lake}'"]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Engines and their settings that commands would start."""
    pytest.importorskip("pysail")
    from episub_router.pipeline import session

    made: list[Any] = []

    def start(master: object, conf: object, engine: str, remote: object) -> None:
        made.append((engine, conf))
        raise session.SparkError("it isn't needed")

    monkeypatch.setattr(session, "start", start)
    return made


def test_gzipped_traces_are_as_large_as_what_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: list[Any]
) -> None:
    from episub_router.pipeline import session

    monkeypatch.setattr(session, "SMALL_BYTES", 5000)
    for name in ("a.pb", "a.pb.gz"):
        (tmp_path / name).write_bytes(bytes(1000))
        assert main(["pipeline", "ingest", str(tmp_path / name), "--lake", str(tmp_path)]) == 1
    assert [engine for engine, _ in chosen] == [session.SAIL, session.SPARK]


@pytest.mark.parametrize(
    ("traces", "more", "little"),
    [("here", [], True), ("hdfs://nn/traces", [], False), ("here", ["--master=m"], False)],
)
def test_the_batches_of_a_stream_are_little_data(
    traces: str, more: list[str], little: bool, tmp_path: Path, chosen: list[Any]
) -> None:
    """Whatever there will be, if it is on this machine, so Sail takes them; of a cluster nobody
    knows."""
    from episub_router.pipeline import session

    lake = tmp_path / "lake"
    given = ["pipeline", "stream", traces, "--run", "r", "--lake", str(lake), *more]
    assert main(given) == 1
    usual = (session.SAIL, session.FOR_LITTLE) if little else (session.SPARK, {})
    assert chosen == [usual]


def _renewed(traces: Path, lake: Path, first: str = "") -> list[str]:
    """A stream that begins anew after two batches; `first` is done at each beginning."""
    code = (f"{first}\nfrom episub_router.cli import main, pipeline; pipeline._ON_SAIL = 2; "
            "raise SystemExit(main.main())")  # fmt: skip
    return [sys.executable, "-c", code, "pipeline", "stream", str(traces), "--run", "r",
            "--lake", str(lake), "--files", "1", "--once", "--engine", "sail"]  # fmt: skip


@pytest.mark.slow
def test_a_stream_on_sail_begins_anew_and_goes_on(tmp_path: Path) -> None:
    """As it keeps some memory of each batch."""
    pytest.importorskip("pysail")
    from episub_router.pipeline.lake import Lake

    traces, lake = tmp_path / "star", tmp_path / "lake"
    events = write_star(traces, nodes=3)
    ran = children.run(_renewed(traces, lake), capture_output=True, text=True, check=True)
    told = [line.split(":")[0].split(" /")[0] for line in ran.stdout.splitlines()]
    assert told == ["following", "batch 0", "batch 1", "following", "batch 2"]
    entries = Lake(None, str(lake)).manifest()
    assert sum(entry.events for entry in entries) == events
    assert Lake(None, str(lake)).live_progress("r")["batch"] == 2


@pytest.mark.slow
def test_ctrl_c_while_a_stream_begins_anew_ends_it(tmp_path: Path) -> None:
    """It was lost, or told where Python was just loading something."""
    pytest.importorskip("pysail")
    traces, lake = tmp_path / "star", tmp_path / "lake"
    write_star(traces, nodes=4)
    interrupted = f"import os, signal\nif os.path.exists({str(lake)!r}): signal.raise_signal(2)"
    command = _renewed(traces, lake, interrupted)
    ran = children.run(command, capture_output=True, text=True)
    told = [line.split(":")[0].split(" /")[0] for line in ran.stdout.splitlines()]
    assert told == ["following", "batch 0", "batch 1"]
    assert (ran.returncode, ran.stderr) == (130, "episub: interrupted\n")
