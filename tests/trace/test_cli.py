"""`episub trace`: what it prints and returns; and every command of the document."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from episub_router.cli.main import main
from episub_router.trace.reading.json_lines import to_json
from episub_router.trace.simulated import peer_id
from episub_router.trace.text import peer_name
from episub_router.trace.tracer import Tracer
from tests.cli.processes import node_process
from tests.docs.snippets import ROOT, commands, snippets
from tests.trace.samples import events_of, pb_bytes, put, sample_events

EVENTS = sample_events(100, seed=4)


def traced(directory: Path, name: str = "t.pb.gz") -> Path:
    with Tracer(directory / name, name="alice") as tracer:
        for event in EVENTS:
            tracer.emit(event)
    return directory / name


def test_cat_prints_a_line_for_each_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "cat", str(traced(tmp_path))]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == len(EVENTS) + 2
    assert not err
    rtt = next(n for n, event in enumerate(EVENTS) if event.HasField("rtt"))
    peer, other = peer_name(EVENTS[rtt].peerID), peer_name(EVENTS[rtt].rtt.peerID)
    second = rtt // 1000
    assert lines[rtt + 1] == (
        f"2025-11-13T02:13:{20 + second}.{rtt * 1000:06}Z {peer} rtt peerID={other} rtt=12345678"
    )


def test_cat_json_is_json_for_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "cat", "--json", str(put(tmp_path, pb_bytes(EVENTS)))]) == 0
    assert capsys.readouterr().out.splitlines() == [to_json(event) for event in EVENTS]


def test_names_from_others_don_t_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = EVENTS[0].FromString(EVENTS[0].SerializeToString())
    event.ClearField("publishMessage")
    event.type = 9
    event.join.topic = "\x1b[2Jgone\n"
    assert main(["trace", "cat", str(put(tmp_path, pb_bytes([event])))]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("\n") == 1


def test_what_is_unreadable_is_said_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = pb_bytes(EVENTS[:10])
    path = put(tmp_path, data + b"\xff" * 10 + pb_bytes(EVENTS[10:20]))
    assert main(["trace", "cat", str(path)]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 20
    assert err.startswith(f"{path}: 10 bytes at {len(data)}: ")
    assert main(["trace", "check", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"unreadable: 10 bytes at {len(data)}" in out
    assert "INCOMPLETE" in out


def test_check_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(traced(tmp_path))
    assert main(["trace", "check", path]) == 0
    assert "102 events of" in capsys.readouterr().out
    assert main(["trace", "check", "--json", path]) == 0
    found = json.loads(capsys.readouterr().out)[path]
    assert found["total"] == 102
    assert found["complete"]
    assert found["events"]["header"] == 1
    assert (found["format"], found["gzipped"], found["ended"]) == ("pb", True, True)


def test_a_file_that_isn_t_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("cat", "check"):
        assert main(["trace", command, str(tmp_path / "none")]) == 1
        assert "No such file" in capsys.readouterr().err


def test_simulated_nodes_have_names() -> None:
    assert peer_name(peer_id(12)) == "sim-12"
    assert peer_name(peer_id(-1)) == "sim-outside"


@pytest.mark.hosts
def test_the_cookbook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, in one directory, simulations with fewer nodes; a node stops at the end of its
    input."""
    monkeypatch.chdir(tmp_path)
    document = ROOT / "docs" / "trace.md"
    shell = [s for s in snippets(document) if s.language == "sh" and not s.no_run]
    lines = [line for snippet in shell for line in commands(snippet)]
    assert len(lines) >= 6
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "episub"
        if arguments[0] == "node":
            continue
        if arguments[0] == "sim":
            arguments += ["--nodes", "20"]
        assert main(arguments) == 0, line
    assert len(list((tmp_path / "traces").iterdir())) == 5


@pytest.mark.hosts
def test_a_demo_s_traces_have_its_own_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--hosts", "6", "--messages", "10", "--kill", "0.2", "--json"]
    assert main(["demo", *arguments, "--trace", str(tmp_path)]) == 0
    summary = json.loads(capsys.readouterr().out)
    delivered = duplicates = 0
    ends = []
    for path in sorted(tmp_path.iterdir()):
        events = events_of(path)
        foreign = sum(
            event.HasField("deliverMessage") and event.deliverMessage.receivedFrom != event.peerID
            for event in events
        )
        ends.append([event.node.state for event in events if event.HasField("node")][-1])
        # What a host got before it was killed counts.
        delivered += foreign
        duplicates += sum(event.HasField("duplicateMessage") for event in events)
    assert delivered == summary["delivered"]
    assert round(duplicates / delivered, 3) == summary["duplicates_per_delivery"]["first_ten"]
    assert [number for number, end in enumerate(ends) if end == "crash"] == summary["killed"]


@pytest.mark.hosts
async def test_a_node_writes_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "node.pb.gz"
    async with node_process("--trace", str(path), "--region", "eu") as node:
        await node.event("listening")
        await node.end_input()
        assert await node.exit_status() == 0
    events = events_of(path)
    assert (events[0].header.name, events[0].header.region) == ("node", "eu")
    assert [e.join.topic for e in events if e.HasField("join")] == ["news"]
    assert events[-1].report.closed


@pytest.mark.hosts
async def test_a_trace_that_can_t_be_written_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none" / "node.pb"
    async with node_process("--trace", str(path)) as node:
        assert await node.exit_status() == 1
        assert node.process.stderr is not None
        told = (await node.process.stderr.receive_some()).decode()
    assert told.startswith("episub: --trace: ")
    assert told.count("\n") == 1
