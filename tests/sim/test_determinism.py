"""The same scenario and seed give the same bytes: in other processes, under other hash seeds."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from episub_router.sim.runner import jobs_for, run, sweep
from tests import children
from tests.sim.simulated import scenario_of

ROOT = Path(__file__).parents[2]

SCENARIO = """
name = "everything"
[network]
nodes = 40
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
source = "random"
messages = 20
start = 15.0
interval = 1.0
[[faults]]
kind = "crash"
at = 18.2
share = 0.1
[[faults]]
kind = "flap"
at = 20.2
share = 0.1
[[faults]]
kind = "partition"
at = 22.2
seconds = 4.0
[[faults]]
kind = "churn"
at = 28.0
until = 32.0
rate = 0.05
[[faults]]
kind = "leave"
at = 33.0
share = 0.1
"""

HOSTILE = (
    SCENARIO.replace("ROUTER", "episub").replace('"random"', '"few"')
    + """
[[adversaries]]
kind = "greedy"
share = 0.05
comes = 20.0
[[adversaries]]
kind = "join-capture"
share = 0.05
[[adversaries]]
kind = "poison"
share = 0.05
[[adversaries]]
kind = "hijack"
share = 0.05
at = 20.0
"""
)

TEXTS = {
    router: SCENARIO.replace("ROUTER", router) for router in ("episub", "gossipsub", "floodsub")
} | {"hostile": HOSTILE}
SEED = 7

PROGRAM = f"""
import sys
from episub_router.sim.scenario import loading
from episub_router.sim.runner import run
for text in sys.argv[1:]:
    (scenario,) = loading.parse(text).scenarios().values()
    sys.stdout.write(run(scenario, {SEED}).to_json() + "\\0")
"""


@cache
def ran(name: str, seed: int = SEED) -> str:
    return run(scenario_of(TEXTS[name]), seed).to_json()


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, str]:
    """Runs in another process, with another hash seed: that of this one is random."""
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    there = children.run(
        [sys.executable, "-c", PROGRAM, *TEXTS.values()],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(TEXTS, there.stdout.split("\0")[:-1], strict=True))


@pytest.mark.sim
@pytest.mark.parametrize("name", TEXTS)
def test_same_bytes_in_every_process(name: str, elsewhere: dict[str, str]) -> None:
    here = ran(name)
    assert len(here) > 1000
    assert elsewhere[name] == here


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled copy of the package, compiled quickly rather than well."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("compiled")
    children.run([sys.executable, ROOT / "hatch_build.py", folder, "0"], check=True)
    return folder


def _in(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    ran = children.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return ran.stdout


@pytest.mark.compiled
@pytest.mark.parametrize("router", ["episub", "gossipsub", "floodsub"])
def test_same_bytes_compiled(router: str, compiled: Path) -> None:
    assert _in(compiled, "-c", PROGRAM, TEXTS[router]) == ran(router) + "\0"


@pytest.mark.compiled
@pytest.mark.parametrize(
    "arguments",
    [
        'crash --variant "episub, uniform" --nodes 40 --messages 20',
        'large --variant "episub-uniform-1MB-20, 5 %" --nodes 30 --messages 2',
        'choke --variant "choke, PR 681, 20 ms" --nodes 30 --messages 2',
    ],
)
def test_runs_that_share_a_warm_up_compiled(arguments: str, compiled: Path) -> None:
    """A kept warm-up makes compiled objects without calling `__init__`."""
    run_both = shlex.split(f"sim run {arguments} --json")
    pure, fast = (_in(folder, "-m", "episub_router", *run_both) for folder in (ROOT, compiled))
    assert len(json.loads(pure)["runs"]) == 2
    assert fast == pure


@pytest.mark.compiled
def test_the_build_is_named(compiled: Path) -> None:
    assert _in(compiled, "-m", "episub_router", "sim", "--version") == "episub sim, compiled\n"
    assert _in(ROOT, "-m", "episub_router", "sim", "--version") == "episub sim, pure Python\n"


@pytest.mark.sim
def test_another_seed_is_another_run() -> None:
    assert ran("episub") != ran("episub", SEED + 1)


@pytest.mark.sim
def test_sweeps_in_processes_give_what_one_process_gives() -> None:
    jobs = jobs_for({"a": scenario_of(TEXTS["episub"])}, [SEED, SEED + 1])
    together = [(job, result.to_json()) for job, result in sweep(jobs, 2)]
    assert together == [(job, ran("episub", job.seed)) for job in jobs]
