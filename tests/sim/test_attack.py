"""The searching attacker: the same seed finds the same, and what it finds can be run again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from episub_router.sim.attack import AttackSearch, Attempt
from episub_router.sim.runner import run
from episub_router.sim.scenario import loading
from episub_router.sim.strict import ScenarioError
from tests.sim.test_cli import call

pytestmark = pytest.mark.sim

SMALL = {
    "network.nodes": 20, "traffic.messages": 16, "traffic.settle": 3.0, "adversaries.0.at": 4.0,
    "phases": [{"name": "before", "start": 2.0}, {"name": "after", "start": 4.0}],
}  # fmt: skip


def table(**settings: Any) -> dict[str, Any]:
    (made,) = loading.load("adaptive").tables({**SMALL, **settings}, [""]).values()
    return made


def test_the_same_seed_tries_the_same_and_other_seeds_others() -> None:
    one, again = (list(AttackSearch(table(), 1).attempts(4)) for _ in range(2))
    assert one == again
    assert len(one) == 4
    assert all(attempt.adversary["at"] == 4.0 for attempt in one)
    (other,) = AttackSearch(table(), 2).attempts(1)
    assert other.adversary != one[0].adversary


class Hill(AttackSearch):
    """Its top is where everything is withheld."""

    def run(self, adversaries: list[dict[str, Any]]) -> Iterator[Attempt]:
        return (Attempt(of, 0.1, 0.0, of.get("withheld", 0.0)) for of in adversaries)


def test_the_second_half_changes_the_worst_so_far() -> None:
    harms = [attempt.harm for attempt in Hill(table(), 2).attempts(60)]
    assert max(harms[30:]) > max(harms[:30])
    assert sum(harms[45:]) > 1.3 * sum(harms[:15])


def test_the_worst_is_a_scenario_that_gives_the_same_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"--set={key}={value}" for key, value in SMALL.items() if key != "phases"]
    out = ["--out", str(tmp_path), "--nodes", "20"]
    assert call("attack", "adaptive", "--runs", "2", *settings, "--set=phases=[]", *out) == 0
    assert "withheld" in capsys.readouterr().out
    found = json.loads((tmp_path / "attack.json").read_text(encoding="utf-8"))
    worst = max(found["attempts"], key=lambda attempt: attempt["harm"])
    file = loading.load(str(tmp_path / "worst.toml"))
    assert file.table["adversaries"] == [worst["adversary"]]
    (scenario,) = file.scenarios().values()
    (phase,) = run(scenario, 1).summary["phases"]
    assert phase["latency"]["p99"] == worst["p99"]
    assert 1 - phase["reliability"] == worst["lost"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["hostile"], "choose one variant"),
        (["scale"], "an attack is searched for one table of adversaries"),
        (["adaptive", "--runs", "0"], "--runs and --processes must be at least 1"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("attack", *words) == 2
    assert complaint in capsys.readouterr().err


def test_without_messages_to_measure_it_is_refused() -> None:
    with pytest.raises(ScenarioError, match="no message in the last phase, 'after'"):
        AttackSearch(table(**{"traffic.interval": 0.1}), 1)


@pytest.mark.parametrize("name", loading.names())
def test_tables_are_written_as_they_were_read(name: str) -> None:
    read = loading.load(name).table
    assert tomllib.loads(loading.dumps(read)) == read
