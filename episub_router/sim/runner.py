"""Running scenarios: a pure function from a scenario and a seed to a result, and sweeps."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from time import perf_counter
from typing import Any

from episub_router.sim.records import Records
from episub_router.sim.results.summary import summarize
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.simulation import Progress, Simulation
from episub_router.sim.trace import open_trace
from episub_router.trace.software import software


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one run. `summary` depends on scenario and seed alone; `seconds` is
    the wall-clock time that it took."""

    summary: dict[str, Any]
    seconds: float

    def to_json(self) -> str:
        """`summary` as JSON, the same bytes for the same scenario and seed."""
        return json.dumps(self.summary, indent=1, sort_keys=True) + "\n"


def run(
    scenario: Scenario,
    seed: int,
    *,
    trace: Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run `scenario` with `seed`; `trace` is a file to write every event to, as Parquet or as
    its name says (`sim.trace.open_trace`)."""
    started = perf_counter()
    records = Records(scenario.capacity)
    with ExitStack() as stack:
        if trace is not None:
            records.trace = stack.enter_context(open_trace(trace, _header(scenario, seed, trace)))
        simulation = Simulation(scenario, seed, records)
        simulation.run(progress)
    seconds = perf_counter() - started
    return Result(summarize(simulation), seconds)


def _header(scenario: Scenario, seed: int, trace: Path) -> dict[str, Any]:
    return {
        "run": f"{scenario.name} {trace.name.split('.')[0]}",
        "simulated": True,
        "software": software(),
        "router": scenario.router.kind,
        "seed": seed,
        "scenario": scenario.name,
    }


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep."""

    label: str
    scenario: Scenario
    seed: int


def sweep(jobs: Sequence[Job], processes: int = 1) -> Iterator[tuple[Job, Result]]:
    """Run all `jobs` in up to `processes` processes; results come in the order of the jobs."""
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, _run_job(job)
        return
    # Spawned, so that a worker starts clean whatever threads the caller has.
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context) as pool:
        with _uninterrupted():
            results = pool.map(_run_job, jobs)
        try:
            yield from zip(jobs, results, strict=True)
        except BaseException:
            for worker in multiprocessing.active_children():
                if worker not in others:
                    worker.terminate()
            raise


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that start in this context take no notice of Ctrl-C, which their terminal sends to
    them as well; who started them ends them."""
    # Its start would let the signal through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_job(job: Job) -> Result:
    return run(job.scenario, job.seed)


def jobs_for(scenarios: dict[str, Scenario], seeds: Iterable[int]) -> list[Job]:
    """Every scenario with every seed."""
    return [Job(label, scenario, seed) for label, scenario in scenarios.items() for seed in seeds]
