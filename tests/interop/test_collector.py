"""`episub trace collect` takes what a go peer's RemoteTracer sends, and has all of it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import exchange, sizes
from tests.children import trio_child
from tests.trace.samples import bad, good, records_of

TOPIC = "collected"


def delivered(directory: Path) -> Counter[str]:
    """How often each message was delivered, in files that are complete or not."""
    records = [record for path in directory.iterdir() for record in records_of(path)]
    assert not bad(records)
    delivered = (e.deliverMessage for e in good(records) if e.HasField("deliverMessage"))
    return Counter(message.messageID.hex() for message in delivered)


@pytest.mark.peers("go")
async def test_go_peers_send_their_traces(lab: Lab, tmp_path: Path) -> None:
    directory = tmp_path / "traces"
    command = [sys.executable, "-m", "episub_router", "trace", "collect", str(directory)]
    async with trio_child(
        command, stdout=subprocess.PIPE, env=KINDS["episub"].environment()
    ) as collector:
        assert collector.stdout is not None
        printed = b""
        while b"\n" not in printed:
            printed += await collector.stdout.receive_some()
        found = re.match(rb"\* listening on (\S+)", printed)
        assert found is not None
        address = found[1].decode()
        peers = [await lab.start("go", f"--collector={address}", topics=[TOPIC]) for _ in "ab"]
        await mesh_link(*peers, TOPIC)
        await exchange(TOPIC, peers, sizes(12))
        with trio.fail_after(60):
            # Of what another process has written, nothing tells but looking again.
            while sorted(delivered(directory).values()) != [2] * 24:  # noqa: ASYNC110
                await trio.sleep(0.2)
        assert {path.name.split(".")[0] for path in directory.iterdir()} == {p.id for p in peers}
        collector.send_signal(signal.SIGINT)
        with trio.fail_after(30):
            assert await collector.wait() == 0
    assert {path.suffix for path in directory.iterdir()} == {".pb"}
    assert sorted(delivered(directory).values()) == [2] * 24
