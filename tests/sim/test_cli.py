"""`episub sim`: what it prints, writes and returns; and every command of the cookbook."""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from episub_router.cli import sim as cli
from episub_router.sim import trace
from episub_router.sim.scenario import loading
from episub_router.trace.simulated import Row, event_of
from interop.testbed.lab.usage import read_usage
from tests.children import child
from tests.trace.samples import checked, events_of

COOKBOOK = Path(__file__).parents[2] / "docs" / "simulator.md"

pytestmark = pytest.mark.sim

NODES = 14


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="episub")
    cli.add_parser(parser.add_subparsers(required=True))
    return parser.parse_args(["sim", *words])


def call(*words: str) -> int:
    arguments = parse(*words)
    return int(arguments.run(arguments))


def small(*words: str) -> list[str]:
    return [*words, "--nodes", str(NODES), "--messages", "5"]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list") == 0
    assert "plumtree-redundancy" in capsys.readouterr().out
    assert call("list", "--json") == 0
    listing = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listing] == loading.names()


def test_run_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*small("run", "scale")) == 0
    out, err = capsys.readouterr()
    assert re.search(r"reliability\W+1\.00000", out)
    assert "events in" in err


def test_phases_of_each_variant(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*small("run", "bursts", "--variant", "uniform", "--phases")) == 0
    out = capsys.readouterr().out
    assert f"bursts: {NODES} nodes, 15 messages: episub, uniform" in out
    assert f"bursts: {NODES} nodes, 15 messages: gossipsub, uniform" in out
    assert len(re.findall(r"another source.*bursts", out)) == 2


def test_a_table_of_variants_has_all_their_phases_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call(*small("run", "bursts")) == 0
    table = capsys.readouterr().out.partition("sent in all")[0]
    file = loading.load("bursts")
    words = " ".join(table.split())
    for variant, scenario in file.scenarios().items():
        assert variant in words
        assert all(phase.name in table for phase in scenario.phases)
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert table.splitlines()[0].startswith(f"bursts: {NODES} nodes, ")


def test_published_figures_stand_beside_runs_of_their_size_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("run", "simsub-1") == 0
    assert "as published in 2018" in capsys.readouterr().out
    assert call("run", "simsub-1", "--nodes", "40") == 0
    assert "as published in 2018" not in capsys.readouterr().out


def ended(process: subprocess.Popen[str]) -> bool:
    """Whether it ends within a moment: nothing else tells how far it is."""
    try:
        process.wait(0.02)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def running_sweep() -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A run in two processes, and the process ids of its children: two workers, and the resource
    tracker."""
    words = ["sim", "run", "scale", "--seeds", "2", "--processes", "2"]
    with child(
        [sys.executable, "-m", "episub_router", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while len(found := children.read_text().split()) < 3:
            assert process.poll() is None
        yield process, found


def test_ctrl_c_in_the_terminal_is_one_line() -> None:
    with running_sweep() as (process, _):
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60)[1] == "episub: interrupted\n"
        assert process.returncode == 130


def cpu_seconds(pid: str) -> float:
    usage = read_usage(int(pid))
    assert usage is not None
    return usage.cpu


def test_workers_end_with_the_command_that_started_them() -> None:
    """Whatever ends it: they would go on until their run is over."""
    with running_sweep() as (process, workers):
        # The third is the resource tracker, which only waits.
        while sorted(map(cpu_seconds, workers))[1] < 2.0:
            assert not ended(process)
        watched = [os.pidfd_open(int(worker)) for worker in workers]
        process.kill()
        for fd in watched:
            with open(fd):
                assert select.select([fd], [], [], 60)[0]


def test_settings_need_only_fit_the_chosen_variants(capsys: pytest.CaptureFixture[str]) -> None:
    """gossipsub has no such parameter."""
    setting = "router.params.membership.rtt_advantage=1.5"
    chosen = ("--variant", "episub, uniform, one", "--set", setting)
    assert call(*small("run", "headline", *chosen, "--set", "traffic.start=20.0")) == 0
    assert "episub, uniform, one source" in capsys.readouterr().out


def test_run_writes_summary_plots_and_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "BATCH", 500)
    out = tmp_path / "run"
    assert (
        call(*small("run", "scale", "--out", str(out), "--trace", "--json", "--plots", "png")) == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "summary.json").read_text())
    assert {path.name for path in out.glob("*.png")} == {
        "degree.png", "latency.png", "ldh.png", "rmr.png",
    }  # fmt: skip
    (file,) = out.glob("*.parquet")
    table = pq.read_table(file)
    assert pq.ParquetFile(file).num_row_groups > table.num_rows // 500 - 1
    summary = printed["runs"][0]["summary"]

    events = Counter(table["event"].to_pylist())
    assert events["publishMessage"] == 5
    assert events["deliverMessage"] == 5 * NODES
    sent: Counter[str] = Counter()
    control_bytes = payload_bytes = 0
    for row in table.filter(pc.field("event") == "sendRPC").to_pylist():
        sent[(row["control"] or "GOSSIP").partition("-")[0]] += 1
        payload_bytes += row["payload"]
        control_bytes += row["size"] - row["payload"]
    traffic = summary["traffic"]
    assert payload_bytes == traffic.pop("payload")["bytes"]
    assert sent == {kind: entry["sends"] for kind, entry in traffic.items()}
    assert control_bytes == sum(entry["bytes"] for entry in traffic.values())
    times = table["time"].to_pylist()
    assert times == sorted(times)
    header = json.loads(pq.read_schema(file).metadata[b"header"])
    assert header["simulated"]
    assert header["router"] == "episub"


def test_a_trace_has_the_same_events_in_every_format(tmp_path: Path) -> None:
    for trace_format in ("parquet", "pb", "json.gz"):
        options = ["--out", str(tmp_path), "--trace", trace_format, "--plots", "none"]
        assert call(*small("run", "lossy", *options, "--variant", "5 %")) == 0
    (parquet,) = tmp_path.glob("*.parquet")
    (pb,) = tmp_path.glob("*.pb")
    (lines,) = tmp_path.glob("*.json.gz")
    rows = [Row(**row) for row in pq.read_table(parquet).to_pylist()]
    events = events_of(pb)
    assert events[1:-1] == [event_of(row) for row in rows]
    assert {row.event for row in rows} >= {"discard", "duplicateMessage", "graft", "prune", "rtt"}
    assert checked(lines).complete
    assert events_of(lines)[1:] == events[1:]


@pytest.mark.parametrize("router", ["gossipsub", "floodsub"])
def test_other_routers_are_traced_too(router: str, tmp_path: Path) -> None:
    options = [f"--set=router.kind={router}", f"--out={tmp_path}", "--trace", "--plots=none"]
    assert call(*small("run", "scale", *options)) == 0
    table = pq.read_table(tmp_path / "trace-1.parquet")
    assert table.filter(pc.field("event") == "deliverMessage").num_rows == 5 * NODES


def test_plots_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert call(*small("run", "scale", "--out", str(tmp_path / name))) == 0
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) == 5
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    for router in ("episub", "floodsub"):
        options = [f"--set=router.kind={router}", f"--out={tmp_path / router}", "--seeds=2"]
        assert call(*small("run", "scale", *options, "--plots=none")) == 0
    capsys.readouterr()
    a, b = str(tmp_path / "episub"), tmp_path / "floodsub"
    assert call("compare", a, str(b)) == 0
    assert re.search(r"payloads per delivery.*\+\d+\.\d %", capsys.readouterr().out)
    assert call("compare", a, str(b / "summary.json"), "--json") == 0
    assert set(json.loads(capsys.readouterr().out)) == {"a", "b"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["run", "no-such"],
            "no scenario 'no-such'; there are adaptive, bursts, chat, choke, churn",
        ),
        (["run", "scale", "--set", "network.nodez=3"], "unknown key network.nodez"),
        (["run", "scale", "--nodes", "1"], "network.nodes = 1; must be at least 2"),
        (["run", "scale", "--seeds", "0"], "--seeds and --processes must be at least 1"),
        (["run", "scale", "--trace"], "--trace needs --out"),
        (["run", "headline", "--variant", "x"], "no variant matches ['x']; there are: episub,"),
        (["compare", "none", "none"], "No such file"),
    ],
)
def test_what_can_not_be_done_is_said(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words) == 2
    assert complaint in capsys.readouterr().err


def test_compare_refuses_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("[]", "{", '{"runs": []}', '{"runs": [3]}'):
        (tmp_path / "summary.json").write_text(text)
        assert call("compare", str(tmp_path), str(tmp_path)) == 2
        assert capsys.readouterr().err.startswith("episub sim: ")


def test_unexplained_losses_make_the_command_fail(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from episub_router.sim.routers.floodsub import FloodsubNode

    # A router that doesn't forward: losses that nothing in the network explains.
    monkeypatch.setattr(FloodsubNode, "receive", lambda self, parcel: None)
    assert call(*small("run", "scale", "--set", "router.kind=floodsub")) == 1
    assert "UNEXPLAINED missing deliveries" in capsys.readouterr().out


def cookbook_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", COOKBOOK.read_text(), flags=re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("episub sim ")]


def test_the_cookbook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command, in order, with fewer nodes, messages, seeds and variants."""
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```toml\n(.*?)```", COOKBOOK.read_text(), flags=re.DOTALL)
    assert example is not None
    (tmp_path / "mine.toml").write_text(example.group(1))
    commands = cookbook_commands()
    assert len(commands) >= 10
    for command in commands:
        arguments = parse(*shlex.split(command)[2:])
        if arguments.sim_command in ("run", "warm", "attack"):
            arguments.nodes = 10
        if arguments.sim_command == "attack":
            arguments.runs = 2
        if arguments.sim_command == "run":
            arguments.messages = min(arguments.messages or 6, 6)
            arguments.seeds = 1
            arguments.processes = 1
            if not arguments.variant:
                arguments.variant = list(loading.load(arguments.scenario).scenarios())[:1]
        assert arguments.run(arguments) == 0, command
