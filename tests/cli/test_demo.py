"""`episub demo` at reduced size: what it counts, says and returns."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from rich.console import Console

from episub_router.cli.demo import run, summary
from episub_router.cli.demo.recording import RecordingRouter, Trace
from episub_router.cli.demo.report import broadcast_tree
from episub_router.cli.demo.summary import percentile
from episub_router.cli.main import main
from tests import children

hosts = pytest.mark.hosts


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["demo", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


@hosts
def test_every_message_reaches_every_host(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run_json(capsys, "--hosts", "5", "--messages", "10", "--seed", "7")
    assert status == 0
    assert result["complete"]
    assert (result["delivered"], result["expected"]) == (40, 40)
    assert result["missing"] == {}
    assert result["repeated"] == result["errors"] == 0
    assert result["hops"]["min"] == 1
    assert result["active_view"]["min"] >= 4
    path = result["last_path"]
    assert [path["source"]] == result["sources"]
    assert {int(host) for host in path["parents"]} == set(range(5)) - {path["source"]}


@hosts
def test_the_first_copy_of_each_message_is_no_duplicate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, result = run_json(capsys, "--hosts", "2", "--messages", "3")
    assert result["duplicates_per_delivery"] == {"first_ten": 0.0, "last_ten": 0.0}


@hosts
def test_who_lives_gets_everything_when_others_crash(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = run_json(
        capsys, "--hosts", "8", "--messages", "12", "--sources", "2", "--kill", "0.25"
    )
    assert status == 0
    assert len(result["killed"]) == 2
    assert len(result["sources"]) == 2
    assert not set(result["killed"]) & set(result["sources"])
    # What the victims got before is counted, too.
    assert result["delivered"] == result["expected"]
    assert 12 * 5 < result["delivered"] <= 12 * 5 + 6 * 2
    assert not {int(host) for host in result["last_path"]["parents"]} & set(result["killed"])


@hosts
def test_the_report_shows_figures_and_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--hosts", "3", "--messages", "4"]) == 0
    text = capsys.readouterr().out
    assert "8 of 8 (100 %)" in text
    for figure in ("Duplicates", "Hops", "Latency", "Active view", "Passive view"):
        assert figure in text
    for host in range(3):
        assert f"host {host}" in text.partition("The path of message 4")[2]


@hosts
@pytest.mark.slow
def test_a_message_that_a_live_host_misses_fails_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class SilentRouter(RecordingRouter):
        """Sends none of its own messages."""

        async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
            if msg_forwarder.to_bytes() != pubsub_msg.from_id:
                await super().publish(msg_forwarder, pubsub_msg)
            else:
                # Until now the overlay was waited for, which takes its time on a busy machine.
                monkeypatch.setattr(run.DemoConfig, "patience", 0.5)

    found: list[dict[str, Any]] = []

    def summarize(outcome: run.DemoOutcome) -> dict[str, Any]:
        found.append(summarized(outcome))
        return found[0]

    summarized = summary.summarize
    monkeypatch.setattr(summary, "summarize", summarize)
    monkeypatch.setattr(run, "RecordingRouter", SilentRouter)
    assert main(["demo", "--hosts", "3", "--messages", "1", "--patience", "120"]) == 1
    assert "1 message missed a live host" in capsys.readouterr().out
    [result] = found
    assert not result["complete"]
    assert (result["delivered"], result["expected"]) == (0, 2)
    assert len(result["missing"]["1"]) == 2
    assert result["application_latency_ms"] == {"p50": None, "p99": None}


@hosts
def test_an_overlay_that_does_not_form_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--hosts", "3", "--patience", "0.001"]) == 1
    output = capsys.readouterr()
    assert not output.out
    assert "of 3 hosts found 2 neighbours" in output.err


def test_hops_are_averaged_over_messages_as_in_the_pipeline_s_figures() -> None:
    """Of a message from before a crash there are more deliveries than of one from after it."""
    traces = (
        Trace(0, 1.0, parents={1: 0, 2: 1, 3: 2}, arrivals={1: 1.1, 2: 1.1, 3: 1.1}),
        Trace(0, 2.0, parents={1: 0, 2: 0}, arrivals={1: 2.1, 2: 2.1}),
    )
    outcome = run.DemoOutcome(
        config=run.DemoConfig(
            hosts=4, messages=2, size=8, sources=1, victims=1, seed=1, patience=1.0
        ),
        killed=(3,),
        live=(0, 1, 2),
        traces=traces,
        active=(2, 2, 2),
        passive=(0, 0, 0),
        errors=0,
        failures={},
        joining=1.0,
        broadcasting=1.0,
    )
    assert summary.summarize(outcome)["hops"] == {"min": 1, "mean": 1.5, "max": 3}


def draw(trace: Trace, crashed: tuple[int, ...] = (), max_lines: int = 32) -> list[str]:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(broadcast_tree(trace, crashed, max_lines))
    return capture.get().splitlines()


def test_a_small_tree_has_a_line_for_each_host() -> None:
    trace = Trace(0, 10.0, parents={1: 0, 2: 0, 3: 1}, arrivals={1: 10.002, 2: 10.001, 3: 10.02})
    assert draw(trace, crashed=(2,)) == [
        "host 0 source",
        "├── host 2  1.0 ms  crashed",
        "└── host 1  2.0 ms",
        "    └── host 3  20 ms",
    ]


def test_a_larger_tree_has_a_line_for_all_leaves_of_a_parent() -> None:
    parents = {1: 0, **dict.fromkeys(range(2, 7), 1), **dict.fromkeys(range(7, 12), 0)}
    assert draw(Trace(0, 0.0, parents=parents), max_lines=6) == [
        "host 0 source",
        "├── host 1",
        "│   └── hosts 2, 3, 4, 5, 6",
        "└── hosts 7, 8, 9, 10, 11",
    ]


def test_a_tree_that_is_too_long_is_cut_and_counts_what_is_missing() -> None:
    chain = Trace(0, 0.0, parents={host: host - 1 for host in range(1, 40)})
    lines = draw(chain, max_lines=5)
    assert len(lines) == 5
    assert lines[-1].endswith("host 4  … 35 more below")


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([3.0], 0.99) == 3


def test_a_directory_that_has_a_run_in_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "host-0.pb").write_bytes(b"another run")
    assert main(["demo", "--hosts", "2", "--trace", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"episub: --trace: {tmp_path} has files in it already; name a new directory\n"
    )


@hosts
def test_traces_that_could_not_be_written_fail_the_run(tmp_path: Path) -> None:
    demo = [sys.executable, "-m", "episub_router", "demo", "--hosts", "2", "--messages", "3"]
    # No file may have more than a block.
    ran = children.run(
        ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *demo, "--trace", str(tmp_path / "run")],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("episub: the traces of 2 hosts are incomplete; ")
    assert "3 of 3 (100 %)" in ran.stdout
