"""go-libp2p-pubsub reads what we write, and we read what it writes.

The files in data/ come from its PBTracer and JSONTracer (v0.19.0), through interop/go/trace.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import OWN, TYPED, kind_of
from episub_router.trace.reading.json_lines import to_json
from episub_router.trace.tracer import Tracer
from tests import children
from tests.docs.snippets import ROOT
from tests.trace.samples import events_of, sample_events

DATA = Path(__file__).parent / "data"
MODULE = ROOT / "interop" / "go" / "trace"


@pytest.mark.parametrize("name", ["go-pbtracer.pb", "go-jsontracer.json"])
def test_all_of_go_s_events_are_read(name: str) -> None:
    events = events_of(DATA / name)
    assert sorted(kind_of(event) or "" for event in events) == sorted(TYPED)
    for event in events:
        assert (event.peerID, event.timestamp) == (b"me", 1_763_000_000_000_000_000 + event.type)
    by_kind = {kind_of(event): event for event in events}
    reject = by_kind["rejectMessage"].rejectMessage
    assert (reject.messageID, reject.reason) == (b"\x01\x02\xff", "validation failed")
    meta = by_kind["recvRPC"].recvRPC.meta
    assert list(meta.control.ihave[0].messageIDs) == [b"\x01\x02\xff"] * 2
    assert list(meta.control.prune[0].peers) == [b"other"]
    assert by_kind["leave"].leave.topic == "news"


def test_our_bytes_are_those_of_go() -> None:
    """What it wrote, written again by us, doesn't change."""
    lines = (DATA / "go-jsontracer.json").read_text().splitlines()
    assert [to_json(event) for event in events_of(DATA / "go-jsontracer.json")] == lines
    frames = b"".join(
        bytes([len(body)]) + body
        for event in events_of(DATA / "go-pbtracer.pb")
        if len(body := event.SerializeToString()) < 128
    )
    assert frames == (DATA / "go-pbtracer.pb").read_bytes()


@pytest.fixture(scope="module")
def go_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in interop/go/trace."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go on this machine")
    program = tmp_path_factory.mktemp("go") / "trace"
    # As in interop/build.sh: without it, what the peers import as well is compiled once more.
    build = [go, "build", "-trimpath", "-o", program, "."]
    children.run(build, cwd=MODULE, check=True, timeout=500)
    return program


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["t.pb", "t.pb.gz", "t.json", "t.json.gz"])
def test_go_reads_our_files(go_trace: Path, name: str, tmp_path: Path) -> None:
    """Also what it has no fields for must not disturb it, nor count as something else."""
    events = sample_events(500, seed=3)
    path = tmp_path / name
    with Tracer(path, name="ours") as tracer:
        for event in events:
            tracer.emit(event)
    read = ask(go_trace, "read", "json" if "json" in name else "pb", path)
    kinds = Counter(kind_of(event) for event in events)
    own = sum(kinds.pop(kind, 0) for kind in OWN)
    assert own > 0
    assert read["contents"] == kinds
    types = Counter(TraceEvent.Type.Name(event.type) for event in events)
    types["JOIN"] += 2  # header and report
    assert read["types"] == types
    delivered = Counter(
        event.deliverMessage.messageID.hex() for event in events if event.HasField("deliverMessage")
    )
    assert read["delivered"] == delivered


@pytest.mark.timeout(600)
@pytest.mark.parametrize("format", ["pb", "json"])
def test_we_read_what_go_writes_now(go_trace: Path, format: str, tmp_path: Path) -> None:
    path = tmp_path / "go"
    children.run([go_trace, "write", format, path], check=True, timeout=60)
    assert sorted(kind_of(event) or "" for event in events_of(path)) == sorted(TYPED)


def ask(program: Path, *arguments: str | Path) -> dict[str, Any]:
    done = children.run([program, *arguments], capture_output=True, check=True, timeout=60)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
