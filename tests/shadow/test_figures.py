"""What is read of a run, its figures and its page."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from interop.shadow import figures, reading
from interop.shadow.configuration import address
from interop.shadow.page import page
from interop.shadow.scenario import Plan, parse
from interop.shadow.table import lines, main


def plan_of(**shadow: Any) -> Plan:
    return parse(
        {
            "name": "two messages",
            "network": {"nodes": 3, "uplink": 8.0},
            "latency": {"kind": "uniform", "low": 0.05, "high": 0.05},
            "traffic": {"source": "one", "messages": 2, "start": 5.0, "interval": 1.0},
            "shadow": shadow,
        }
    )


def entry(second: float, text: str, number: int) -> str:
    time = f"2000-01-01T00:00:{second:06.3f}+00:00"
    return json.dumps({"time": time, "msg": text, "id": str(number)}) + "\n"


def packet(second: int, source: int, size: int) -> bytes:
    header = bytes(12) + bytes(map(int, address(source).split("."))) + bytes(24)
    return struct.pack("<IIII", second, 0, len(header), size) + header


def write(plan: Plan, out: Path) -> None:
    """The first message comes 100 and 300 ms late, twice to one host; the second to one alone."""
    source = plan.publishings[0].host
    near, far = (host for host in range(3) if host != source)
    logs = {
        source: entry(5.01, "Published Message", 0),
        near: entry(5.11, "Received Message", 0) + entry(5.5, "Received Message", 0) + "no JSON\n",
        far: entry(5.31, "Received Message", 0) + entry(6.1, "Received Message", 1),
    }
    for host, text in logs.items():
        home = out / "shadow" / "hosts" / f"node{host}"
        home.mkdir(parents=True)
        started = json.dumps({"time": "2000-01-01T00:00:00+00:00", "msg": "PeerID"}) + "\n"
        (home / "x.1000.stdout").write_text(started + text)
        packets = packet(1, host, 100) + packet(5, host, 1500) + packet(5, (host + 1) % 3, 700)
        (home / "eth0.pcap").write_bytes(bytes(24) + packets)


def test_logs_and_captures_are_read(tmp_path: Path) -> None:
    plan = plan_of()
    write(plan, tmp_path)
    outcome = reading.read(plan, tmp_path)
    assert sorted(outcome.started) == [0, 1, 2]
    assert outcome.published == {0: 5.01}
    assert len(outcome.first) == 3
    assert sum(outcome.copies.values()) == 4
    assert outcome.sent == [{1: 100, 5: 1500}] * 3
    assert not list(tmp_path.rglob("*.pcap"))
    assert len(json.loads((tmp_path / "outcome.json").read_text())["receipts"]) == 3


def test_figures(tmp_path: Path) -> None:
    plan = plan_of()
    write(plan, tmp_path)
    outcome = reading.read(plan, tmp_path)
    [row] = figures.rows(plan, outcome)
    # 50 ms, and 1,024 bytes at a megabyte a second.
    assert (row["direct_p50"], row["direct_p99"]) == (51.0, 51.0)
    assert (row["due"], row["deliveries"], row["p50"], row["p99"]) == (4, 3, 100.0, 300.0)
    assert row["to_99"] == 100.0
    assert row["duplicates"] == round(1 / 6, 3)
    traffic = figures.traffic(plan, outcome)
    assert (traffic["bytes"], traffic["bytes_before"]) == (4500, 300)
    assert traffic["of_payload"] == round(4500 / (2 * 1024 * 2), 3)
    assert [row["messages"] for row in figures.rows(plan_of(skip=1), outcome)] == [1]


def test_the_simulator_s_figures_are_of_the_measured_messages() -> None:
    [row] = figures.simulated(plan_of(skip=1))
    assert (row["messages"], row["deliveries"]) == (1, 2)
    assert row["p50"] >= 50
    kinds = plan_of(kinds=["episub", "go", "episub-go"])
    assert [row["of"] for row in figures.simulated(kinds)] == [
        "simulator, episub",
        "simulator, gossipsub",
    ]


def test_the_table_and_the_page_have_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of()
    write(plan, tmp_path)
    outcome = reading.read(plan, tmp_path)
    result = {
        "name": plan.scenario.name,
        "seed": 1,
        "hosts": 3,
        "kinds": ["episub"],
        "rows": figures.rows(plan, outcome),
        "traffic": figures.traffic(plan, outcome),
        "cost": {"wall": 3.0, "cpu": 5.0},
        "simulated": figures.simulated(plan),
    }
    text = lines([result])
    assert len(text) == 4
    assert len({line.count("|") for line in text}) == 1
    assert "3 of 4" in text[2]
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == text
    assert main([str(tmp_path / "shadow")]) == 2
    found = page(plan, outcome, result)
    for chart in ("deliveries", "shares", "sent"):
        assert f'id="{chart}"' in found
