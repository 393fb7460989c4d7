"""Runs that start from a kept warm-up give the bytes of runs that warm up themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from episub_router.cli.main import main
from episub_router.sim.runner import Job, keep_warm_up, run, sweep
from episub_router.sim.scenario import loading
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.warm_up import WarmUpError, key
from tests.sim.simulated import scenario_of

SCENARIO = """
name = "warmed"
[network]
nodes = 30
jitter = 0.2
loss = 0.02
uplink = 20.0
nat_share = 0.2
[latency]
kind = "regions"
[join]
over = 5.0
[router]
kind = "ROUTER"
[traffic]
source = "few"
messages = 8
start = 20.0
[[faults]]
kind = "crash"
at = 22.2
share = 0.1
"""


def scenario(router: str = "episub", **settings: object) -> Scenario:
    return scenario_of(SCENARIO.replace("ROUTER", router), settings)


@pytest.mark.sim
@pytest.mark.parametrize("router", ["episub", "gossipsub", "floodsub"])
def test_same_bytes_as_in_one_go(router: str, tmp_path: Path) -> None:
    in_one_go = run(scenario(router), 7).to_json()
    for until in (2.0, 20.0):
        keep_warm_up(scenario(router), 7, tmp_path / f"{until}", until)
        assert run(scenario(router), 7, warm=tmp_path / f"{until}").to_json() == in_one_go


@pytest.mark.sim
def test_traffic_faults_and_broadcast_may_differ(tmp_path: Path) -> None:
    whole = {"router.params.broadcast.piece_threshold": 0}
    keep_warm_up(scenario(**whole), 7, tmp_path / "kept")
    other = scenario(
        **{
            **whole,
            "traffic.source": "one",
            "traffic.start": 30.0,
            "faults.0.at": 31.0,
            "network.crash_notice": 3.0,
            "router.params.broadcast.lazy_interval": 2.0,
            "router.params.broadcast.repair": "lazy",
        }
    )
    assert run(other, 7, warm=tmp_path / "kept").to_json() == run(other, 7).to_json()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"network.nodes": 31}, "network"),
        ({"latency.kind": "plane"}, "latency"),
        ({"join.over": 4.0}, "join"),
        ({"router.params.membership.passive_size": 20}, "router"),
        ({"router.params.broadcast.source_trees": 9}, "router"),
        ({"traffic.start": 3.0}, "ends at 12 s, and this run begins at 3 s"),
    ],
)
def test_another_runs_warm_up_is_refused(
    settings: dict[str, object], named: str, tmp_path: Path
) -> None:
    keep_warm_up(scenario(), 7, tmp_path / "kept", 12.0)
    with pytest.raises(WarmUpError, match=named):
        run(scenario(**settings), 7, warm=tmp_path / "kept")
    with pytest.raises(WarmUpError, match="seed"):
        run(scenario(), 8, warm=tmp_path / "kept")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.write_bytes(b"\x80\x05K\x01.")
    with pytest.raises(WarmUpError, match="no kept warm-up"):
        run(scenario(), 7, warm=file)


def test_a_kept_warm_up_runs_no_other_code(tmp_path: Path) -> None:
    keep_warm_up(scenario(), 7, tmp_path / "kept", 3.0)
    header = (tmp_path / "kept").read_bytes().split(b"\n")[0]
    (tmp_path / "kept").write_bytes(header + b"\n" + b"cos\nsystem\n(Vtrue\ntR.")
    with pytest.raises(WarmUpError, match=r"os\.system"):
        run(scenario(), 7, warm=tmp_path / "kept")


def test_shipped_scenarios_share_warm_ups() -> None:
    keys = {}
    for name in ("headline", "new-sources", "chat", "same-moment", "bursts", "crash"):
        variants = loading.load(name).scenarios()
        first = next(label for label in variants if label.startswith("episub, uniform"))
        keys[name] = key(variants[first], 1)
    assert len(set(keys.values())) == 1


@pytest.mark.sim
def test_sweeps_share_them_by_themselves() -> None:
    """Jobs with the same warm-up, of which the last begins before the others."""
    jobs = [
        Job("a", scenario(), 7),
        Job("b", scenario(**{"traffic.source": "one"}), 7),
        Job("another seed", scenario(), 8),
        Job("c", scenario(**{"traffic.start": 10.0}), 7),
    ]
    wanted = {job.label: run(job.scenario, job.seed).to_json() for job in jobs}
    for processes in (1, 2):
        made = {job.label: result.to_json() for job, result in sweep(jobs, processes)}
        assert made == wanted


def test_in_a_folder_they_stay_for_later_sweeps(tmp_path: Path) -> None:
    """That of a single job, too; an earlier message needs one of its own."""
    (_, in_one_go), *_ = sweep([Job("a", scenario(), 7)])
    for start, files in ((None, 1), (None, 1), (10.0, 2)):
        changed = {} if start is None else {"traffic.start": start}
        ((_, result),) = sweep([Job("a", scenario(**changed), 7)], 1, [tmp_path])
        assert len([*tmp_path.iterdir()]) == files
        assert (result.to_json() == in_one_go.to_json()) == (start is None)


def test_two_commands_may_keep_the_same_one(tmp_path: Path) -> None:
    """Neither writes into the file that the other is writing."""
    (tmp_path / "kept.partial").mkdir()
    keep_warm_up(scenario(), 7, tmp_path / "kept", 3.0)
    assert (tmp_path / "kept").is_file()


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "warmed.toml").write_text(SCENARIO.replace("ROUTER", "episub"))
    file, kept = str(tmp_path / "warmed.toml"), str(tmp_path / "kept")
    assert main(["sim", "warm", file, "--out", kept]) == 0
    assert main(["sim", "run", file, "--messages", "5", "--json", "--warm", kept]) == 0
    warmed = json.loads(capsys.readouterr().out)
    assert main(["sim", "run", file, "--messages", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == warmed
    assert main(["sim", "run", file, "--seed", "2", "--warm", kept]) == 2
    assert "another seed" in capsys.readouterr().err
