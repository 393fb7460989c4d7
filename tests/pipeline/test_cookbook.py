"""The commands of docs/pipeline.md in order, at small size: from hosts to a report whose numbers
are the hosts' own."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, commands, snippets
from tests.pipeline.files import write_star

pytestmark = [pytest.mark.spark, pytest.mark.hosts]

SMALL = {
    "demo": ["--hosts", "6", "--messages", "10", "--json"],
    "sweep": ["--seeds", "1", "--set", "network.nodes=20", "--set", "traffic.messages=15"],
    "pipeline stream": ["--once", "--engine", "sail"],
}
"""Arguments added, so that the command ends soon, or so that its output can be read."""


@pytest.mark.parametrize(
    "episub",
    ["sail", pytest.param("spark", marks=pytest.mark.spark_processes)],
    indirect=True,
)
def test_the_cookbook_runs_and_the_report_has_the_demo_s_numbers(
    episub: Callable[[list[str]], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("vl_convert")
    monkeypatch.chdir(tmp_path)
    document = ROOT / "docs" / "pipeline.md"
    told = {}
    for snippet in snippets(document):
        for line in commands(snippet) if snippet.language == "sh" and not snippet.no_run else ():
            # The session's JVM was started elsewhere, and takes relative paths from there.
            program, *arguments = (
                str(tmp_path / word) if word in ("lake", "traces/demo") else word
                for word in shlex.split(line)
            )
            assert program == "episub"
            command = " ".join(arguments[: 2 if arguments[0] == "pipeline" else 1])
            added = SMALL.get(command, [])
            capsys.readouterr()
            assert episub([*arguments, *added]) == 0, line
            told[command] = capsys.readouterr().out
    demo = json.loads(told["demo"])
    report = json.loads(Path("demo.json").read_text())
    (run,) = report["runs"]
    (topic,) = run["topics"]
    figures = topic["figures"]
    assert run["quality"]["peers"] == demo["hosts"]
    assert figures["messages"] == demo["messages"]
    assert figures["missing"] == demo["expected"] - demo["delivered"] == 0
    assert figures["reliability"] == figures["atomicity"] == 1.0
    copies = sum(row["duplicates"] for row in topic["messages"])
    assert round(copies / demo["delivered"], 3) == demo["duplicates_per_delivery"]["first_ten"]
    assert sum(topic["duplicates"].values()) == copies
    assert round(figures["mean_hops"], 2) == round(demo["hops"]["mean"], 2)
    assert max(row["ldh"] for row in topic["messages"]) == demo["hops"]["max"]
    for name in ("quarantined", "dropped_by_tracer", "negative_latencies", "repeated_deliveries"):
        assert run["quality"][name] == 0
    for ending in ("html", "md"):
        assert "nothing was lost" in Path(f"demo.{ending}").read_text()
    assert "change" in Path("churn.html").read_text()


def test_a_report_straight_from_traces_with_an_empty_one(
    episub: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from episub_router.pipeline.run import ANSWERS, FACTS

    pytest.importorskip("vl_convert")
    events = write_star(tmp_path / "star")
    # As on hosts, each with its own directory.
    (tmp_path / "star" / "host").mkdir()
    (tmp_path / "star" / "node-1.pb").rename(tmp_path / "star" / "host" / "node-1.pb")
    (tmp_path / "star" / "never-began.pb").touch()
    outs = [tmp_path / f"page.{ending}" for ending in ("html", "json")]
    named = [word for out in outs for word in ("--out", str(out))]
    assert episub(["report", str(tmp_path / "star"), *named]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == [str(out) for out in outs]
    tables = [line.split()[0] for line in printed.err.splitlines()]
    assert tables == [*FACTS, *ANSWERS]
    (run,) = json.loads(outs[1].read_text())["runs"]
    assert run["quality"]["events"] == events
    assert run["quality"]["quarantined"] == 0
    assert "<html" in outs[0].read_text()


def test_a_demo_whose_hosts_are_killed_has_its_numbers_in_the_report(
    episub: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces, out = str(tmp_path / "traces"), tmp_path / "report.json"
    hosts = ["--hosts", "6", "--messages", "10", "--kill", "0.2", "--json"]
    assert episub(["demo", *hosts, "--trace", traces]) == 0
    demo = json.loads(capsys.readouterr().out)
    assert episub(["report", traces, "--out", str(out)]) == 0
    (run,) = json.loads(out.read_text())["runs"]
    (topic,) = run["topics"]
    figures = topic["figures"]
    assert figures["deliveries"] == demo["delivered"]
    assert figures["missing"] == demo["expected"] - demo["delivered"]
    assert round(figures["mean_hops"], 2) == round(demo["hops"]["mean"], 2)
    faults = [(fault["nodes"], fault["ending"]) for fault in topic["faults"]]
    assert faults == [(len(demo["killed"]), "crash")]
