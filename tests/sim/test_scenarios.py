"""Scenario files: those that ship are sound, and what doesn't fit is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from episub_router.sim.routers.params import PRESETS, GossipsubParams
from episub_router.sim.routers.settings import EpisubConfig
from episub_router.sim.scenario import loading
from episub_router.sim.strict import ScenarioError

GOOD = """
name = "good"
[network]
nodes = 50
[latency]
kind = "plane"
[router]
kind = "episub"
[router.params.broadcast]
optimization_threshold = "off"
repair = "lazy"
[[faults]]
kind = "crash"
at = 3.0
share = 0.5
[[phases]]
name = "one"
start = 1
"""


def test_a_scenario_is_read_with_its_types() -> None:
    (scenario,) = loading.parse(GOOD).scenarios().values()
    assert isinstance(scenario.router, EpisubConfig)
    assert scenario.router.params.broadcast.optimization_threshold is None
    assert scenario.router.params.broadcast.repair.value == "lazy"
    assert isinstance(scenario.phases[0].start, float)


@pytest.mark.parametrize("name", loading.names())
def test_scenarios_that_ship_are_sound(name: str) -> None:
    file = loading.load(name)
    assert file.name == name
    assert file.about
    for scenario in file.scenarios().values():
        assert all(phase.start < scenario.end for phase in scenario.phases)
        assert all(fault.at < scenario.end for fault in scenario.faults)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("network.nodez=5", "unknown key network.nodez; allowed here: nodes, jitter"),
        ("networks.nodes=5", "unknown key networks; allowed here: name, about, network"),
        ("network.nodes=1", "network.nodes = 1; must be at least 2 and at most 1000000"),
        ("network.nodes=2.5", "network.nodes must be a whole number, not 2.5"),
        ("network.nodes=true", "network.nodes must be a whole number, not True"),
        ("network.nodes=many", "network.nodes must be a whole number, not 'many'"),
        ("network.loss=nan", "network.loss must be a number, not nan"),
        ("network.loss=0.95", "network.loss = 0.95; must be at least 0 and at most 0.9"),
        ("network.kind=x", "unknown key network.kind"),
        ("network=3", "network must be a table, not 3"),
        ("latency.kind=warp", "latency.kind = 'warp'; allowed: uniform, plane, regions"),
        ("latency.low=0.1", "unknown key latency.low; allowed here: base, per_unit"),
        ("router.kind=carrier-pigeon", "router.kind = 'carrier-pigeon'; allowed: episub, gossip"),
        ("router.params.membership.near_links=9", "router.params.membership: active_size must"),
        ("router.params.broadcast.repair=maybe", "repair = 'maybe'; allowed: eager, lazy"),
        ("faults.0.share=1.5", "faults[0].share = 1.5; must be more than 0 and at most 0.99"),
        ("faults.1.share=0.5", "'1'; must be a position from 0 to 0"),
        ("faults.0.kind=flood", "faults[0].kind = 'flood'; allowed: crash, leave, flap, churn"),
        ("traffic.source=few people", "traffic.source = 'few people'; allowed: one, few, new"),
        ("traffic.interval=0", "traffic.interval = 0.0; must be more than 0"),
        ("traffic.burst=102", "traffic.interval = 1.0; a burst lasts 1.01"),
        ("traffic.preface=10", "traffic.start = 5.0; must be at least 10.0 with a preface"),
        ("traffic.preface=21", "traffic.preface = 21; must be at least 0 and at most 20"),
        ("phases=3", "phases must be a list, not 3"),
        ("name=3", "name must be text, not 3"),
        ("name.first=x", "name is not a table"),
        ("novalue", "'novalue': must be key=value"),
    ],
)
def test_what_does_not_fit_is_refused_with_key_value_and_what_would(
    change: str, complaint: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        loading.parse(GOOD).scenarios(loading.parse_settings([change]))
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "not TOML"),
        ("about = 'no name'", "name is missing"),
        ("name = 'x'\n[latency]\nlow = 0.1", "latency.kind is missing; allowed: uniform"),
        (
            "name = 'x'\n[latency]\nkind = 'uniform'\nlow = 0.2",
            "latency.low = 0.2; must be at most",
        ),
        ("name = 'x'\n[[faults]]\nkind = 'crash'\nat = 1.0", "faults[0].share is missing"),
        ("name = 'x'\nfaults = [3]", "faults[0] must be a table with a kind, not 3"),
        ("name = 'x'\nvariants = 3", "variants must be a list of tables"),
        ("name = 'x'\n[[variants]]\nset = {}", "variants[0].name is missing"),
        ("name = 'x'\n[[variants]]\nname = 'v'\nset = { 'a.b' = 1 }", "unknown key a"),
        ("name = 'x'\n[router]\nkind = 'gossipsub'\npreset = 'v9'", "preset = 'v9'; allowed: v1.1"),
        (
            "name = 'x'\n[router]\nkind = 'gossipsub'\nparams = { D = 6 }",
            "unknown key router.params.D; allowed here: d,",
        ),
        (
            "name = 'x'\n[router]\nkind = 'gossipsub'\nparams = { d = 20 }",
            "router.params: 0 < d_low <= d <= d_high: 4, 20, 12",
        ),
        (
            "name = 'x'\n[traffic]\nsource = 'all'\nstart = 20.0\npreface = 1",
            "traffic.preface needs fixed sources, not 'all'",
        ),
        ("name = 'x'\n[traffic]\nsource = 'chat'\nburst = 2", "a chat has no bursts"),
        (
            "name = 'x'\nphases = [{name='a', start=2.0}, {name='b', start=1.0}]",
            "phases must be in order",
        ),
    ],
)
def test_bad_files_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        loading.parse(text)
    assert complaint in str(refused.value)


def test_a_scenario_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match="no scenario 'headlines'; there are adaptive, bursts, chat, choke"
    ):
        loading.load("headlines")
    with pytest.raises(ScenarioError, match="can't read"):
        loading.load(str(tmp_path / "none.toml"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="can't read"):
        loading.load(str(binary))


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_fit_the_parameters(preset: str) -> None:
    assert GossipsubParams(**PRESETS[preset]).d == 6
