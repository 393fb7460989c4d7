"""`episub sim run --profile`: what the events of a run cost, by kind."""

from __future__ import annotations

import pytest

from episub_router.cli.main import main
from episub_router.sim.profile import Profile
from episub_router.sim.runner import run
from episub_router.sim.scenario.settings import Scenario
from tests.sim.simulated import scenario_of

SCENARIO = """
name = "profiled"
[network]
nodes = 30
[join]
over = 3.0
[router]
kind = "ROUTER"
[traffic]
source = "one"
messages = 3
start = 10.0
"""


def scenario(router: str) -> Scenario:
    return scenario_of(SCENARIO.replace("ROUTER", router))


@pytest.mark.sim
@pytest.mark.parametrize(
    ("router", "kinds"),
    [
        ("episub", {"GOSSIP", "NEIGHBOR", "timers", "dials", "round trips", "publishing"}),
        ("gossipsub", {"PUBLISH", "GRAFT", "timers", "publishing"}),
        ("floodsub", {"PUBLISH", "publishing"}),
    ],
)
def test_all_events_are_counted_and_nothing_changes(router: str, kinds: set[str]) -> None:
    profile = Profile()
    profiled = run(scenario(router), 1, profile=profile)
    assert profiled.to_json() == run(scenario(router), 1).to_json()
    assert kinds <= set(profile.events)
    rows = profile.rows()
    assert sum(events for _, events, _ in rows) == profiled.summary["events"]
    seconds = [seconds for _, _, seconds in rows]
    assert seconds == sorted(seconds, reverse=True)
    assert 0 < sum(seconds) < profiled.seconds


@pytest.mark.sim
def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "simsub-1", "--nodes", "30", "--messages", "2", "--profile"]) == 0
    out, err = capsys.readouterr()
    assert "kind of event" in err
    assert "kind of event" not in out
    assert "PUBLISH" in err


def test_the_command_profiles_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sim", "run", "simsub-1", "--profile", "--processes", "2"]
    assert main(command) == 2
    assert "one process" in capsys.readouterr().err
