"""Scenarios out of TOML, and random faults out of seeds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.testbed.faults import NETWORK, SILENCING, FaultKind
from interop.testbed.scenario import Scenario, load, parse
from interop.testbed.schedule import RandomFaults, draw

SCENARIOS = Path(__file__).parents[2] / "interop" / "testbed" / "scenarios"


def scenario(text: str, **more: int | str) -> Scenario:
    return parse(tomllib.loads(text), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", sorted(SCENARIOS.rglob("*.toml")), ids=lambda path: path.stem)
def test_the_scenarios_that_we_ship(path: Path) -> None:
    assert load(path, seed=1).faults == load(path, seed=1).faults


def test_a_scenario() -> None:
    found = scenario(
        """
        name = "n"
        kinds = {episub = 3, go = 1}
        duration = 60
        traffic = {rate = 5.0, publishers = [1]}
        promises = {deadline = 7.0}
        [[fault]]
        kind = "cut"
        at = 10
        lasts = 5
        hosts = [2, 3]
        """
    )
    assert found.kinds == ("episub", "episub", "episub", "go")
    assert found.traffic.publishers == (1,)
    assert found.calm_after == 53.0
    [fault] = found.faults
    assert fault.far_side(found.hosts) == (0, 1)
    assert fault.text() == "cut of 2, 3 from 10 s to 15 s"
    assert found.needs_network
    assert scenario("hosts = 3", kind="py").kinds == ("py",) * 3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hosts = 1", "2 to 200 hosts"),
        ("hosts = 3\nkind = 'java'", "no kind 'java'"),
        ("hosts = 3\nspeed = 2", "nothing is called speed"),
        (
            "hosts = 3\n[promises]\nmaybe = 1",
            "unknown key promises.maybe; allowed",
        ),
        ("hosts = 3\n[traffic]\npublishers = [3]", "no such publisher"),
        (
            "hosts = 3\n[[fault]]\nkind = 'flood'",
            r"fault\[0\].kind = 'flood'; allowed: kill",
        ),
        ("hosts = 3\n[[fault]]\nkind = 'kill'\nat = 1\nlasts = 1", r"fault\[0\].hosts is missing"),
        ("hosts = 3\n[[fault]]\nkind = 'kill'\nat = 1\nlasts = 1\nhosts = []", "has no hosts"),
        ("hosts = 3\n[[fault]]\nkind = 'kill'\nat = 1\nlasts = 1\nhosts = [3]", "no such host"),
        ("hosts = 3\n[[fault]]\nkind = 'kill'\nat = 1\nlasts = 0\nhosts = [1]", "ends before"),
        ("hosts = 3\n[[fault]]\nkind = 'kill'\nat = 1\nlasts = 99\nhosts = [1]", "lasts only 60"),
        (
            "hosts = 3\n[[fault]]\nkind = 'cut'\nat = 1\nlasts = 1\nhosts = [1]\nothers = [1]",
            "`others` too",
        ),
    ],
)
def test_what_is_no_scenario(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        scenario(text)


@given(
    seed=st.integers(0, 2**32),
    hosts=st.integers(2, 20),
    kinds=st.lists(st.sampled_from(FaultKind), min_size=1, unique=True),
)
def test_random_faults(seed: int, hosts: int, kinds: list[FaultKind]) -> None:
    spec = RandomFaults(kinds=tuple(kinds))
    drawn = draw(spec, hosts, 300.0, seed)
    assert drawn == draw(spec, hosts, 300.0, seed)
    for place, fault in enumerate(drawn):
        assert fault.end <= 300.1  # both ends are rounded
        assert all(0 <= host < hosts for host in (*fault.hosts, *fault.others))
        for other in drawn[place + 1 :]:
            if other.at <= fault.end and fault.at <= other.end:
                assert not (fault.kind in NETWORK and other.kind in NETWORK)
                both = fault.kind in SILENCING and other.kind in SILENCING
                assert not (both and set(fault.hosts) & set(other.hosts))


def test_other_seeds_draw_other_faults() -> None:
    assert draw(RandomFaults(), 12, 300.0, 1) != draw(RandomFaults(), 12, 300.0, 2)


def test_random_faults_leave_time_to_heal() -> None:
    text = "hosts = 6\nduration = 200\n[promises]\nheal = 20.0\ndeadline = 10.0\n[random]\n"
    found = scenario(text + "every = 10.0\nlongest = 20.0\nkinds = ['kill', 'cut']", seed=7)
    assert found.seed == 7
    assert len(found.faults) > 5
    assert {fault.kind for fault in found.faults} <= {FaultKind.KILL, FaultKind.CUT}
    assert max(fault.end for fault in found.faults) <= 170.1
