"""Running scenarios: a pure function from a scenario and a seed to a result, and sweeps."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import resource_tracker
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

from episub_router.sim import warm_up
from episub_router.sim.profile import Profile, ProfiledLoop
from episub_router.sim.records import Records
from episub_router.sim.results.summary import summarize
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.simulation import Progress, Simulation, collection_held_off
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
    warm: Path | None = None,
    profile: Profile | None = None,
) -> Result:
    """Run `scenario` with `seed`; `trace` is a file to write every event to, as Parquet or as
    its name says (`sim.trace.open_trace`). `warm` is a kept warm-up to start from; with a trace
    it isn't used. Raises WarmUpError where that is another run's. `profile` takes down what the
    events cost, but not those that a kept warm-up had queued."""
    started = perf_counter()
    records = Records(scenario.capacity)
    with ExitStack() as stack:
        if trace is not None:
            records.trace = stack.enter_context(open_trace(trace, _header(scenario, seed, trace)))
        loop = None if profile is None else ProfiledLoop(profile)
        simulation = Simulation(scenario, seed, records, loop)
        if warm is not None and trace is None:
            with collection_held_off():
                warm_up.restore(simulation, warm)
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


def sweep(
    jobs: Sequence[Job], processes: int = 1, kept: Sequence[Path] = ()
) -> Iterator[tuple[Job, Result]]:
    """Run all `jobs` in up to `processes` processes; results come in the order of the jobs.

    Jobs with the same warm-up start from one that is made once, or from a `kept` one; in a kept
    folder all stay for later sweeps. Raises WarmUpError where a kept one is no job's.
    """
    with SharedWarmUps(jobs, kept) as shared:
        if processes == 1 or len(jobs) < 2:
            for job in jobs:
                yield job, run(job.scenario, job.seed, warm=shared.take(job))
            return
        # Spawned, so that a worker starts clean whatever threads the caller has.
        context = multiprocessing.get_context("spawn")
        others = multiprocessing.active_children()
        workers = min(processes, len(jobs))
        with ProcessPoolExecutor(workers, context, _end_with_parent) as pool:
            try:
                results = _submit(pool, jobs, shared)
                for job, result in zip(jobs, results, strict=True):
                    yield job, result.result()
            except BaseException:
                for worker in multiprocessing.active_children():
                    if worker not in others:
                        worker.terminate()
                raise


def _submit(
    pool: ProcessPoolExecutor, jobs: Sequence[Job], shared: SharedWarmUps
) -> list[Future[Result]]:
    """Have all jobs run in `pool`, each once its warm-up is there."""
    made = {}
    for path, arguments in shared.due.items():
        with _uninterrupted():
            made[path] = pool.submit(keep_warm_up, *arguments)
    results = []
    for job in jobs:
        warm = shared.path(job)
        if warm in made:
            made[warm].result()
        with _uninterrupted():
            results.append(pool.submit(_run_job, job, warm))
    return results


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that start in this context ignore Ctrl-C, which their terminal sends to them as
    well: the process that started them ends them. Its own Ctrl-C takes effect afterwards."""
    # Its start would let the signal through again.
    resource_tracker.ensure_running()
    pressed: list[FrameType | None] = []
    main = threading.current_thread() is threading.main_thread()
    # The mask holds for this thread; another one, such as the progress bar's, may take the signal.
    handler = signal.signal(signal.SIGINT, lambda _, frame: pressed.append(frame)) if main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if main:
            signal.signal(signal.SIGINT, handler)
        if pressed and callable(handler):
            handler(signal.SIGINT, pressed[0])


def _end_with_parent() -> None:
    """Have this worker end when the process that started it does, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_job(job: Job, warm: Path | None) -> Result:
    return run(job.scenario, job.seed, warm=warm)


def keep_warm_up(
    scenario: Scenario, seed: int, path: Path, until: float = math.inf,
    progress: Progress | None = None,
) -> None:  # fmt: skip
    """Warm up as a run of `scenario` with `seed` does, `until` a time in seconds if that is
    earlier than its first message, fault or phase, and keep the overlay in the file `path`.

    Raises WarmUpError where the run begins with one of those.
    """
    simulation = Simulation(scenario, seed, Records(scenario.capacity))
    end = math.nextafter(min(until, scenario.quiet_until), 0.0)
    if end <= 0:
        raise warm_up.WarmUpError(f"{scenario.name} has no warm-up: it begins with a message")
    with collection_held_off():
        simulation.warm_up(end, progress)
        warm_up.save(simulation, path)


class SharedWarmUps:
    """Warm-ups of jobs that have the same one, in a temporary folder."""

    def __init__(self, jobs: Sequence[Job], kept: Iterable[Path] = ()) -> None:
        """`kept` are files to take in place of warm-ups, and at most one folder, which keeps those
        of single jobs, too. Raises WarmUpError where a file is of no use."""
        self._paths: dict[int, Path] = {}
        """By the `id` of a job: scenarios have no hash."""
        folder = next((path for path in kept if path.is_dir()), None)
        for path in kept:
            if path == folder:
                continue
            fitting = [job for job in jobs if warm_up.fits(path, job.scenario, job.seed)]
            self._paths.update({id(job): path for job in fitting})
            if jobs and not fitting:
                raise warm_up.mismatch(path, jobs[0].scenario, jobs[0].seed)
        self._folder = tempfile.TemporaryDirectory(prefix="episub-warm-")
        alike: dict[str, list[Job]] = {}
        for job in jobs:
            if job.scenario.quiet_until > 0 and id(job) not in self._paths:
                alike.setdefault(warm_up.key(job.scenario, job.seed), []).append(job)
        self.due: dict[Path, tuple[Scenario, int, Path, float]] = {}
        """The files that aren't there yet, with the arguments of `keep_warm_up` for each."""
        for key, group in alike.items():
            if folder is None and len(group) == 1:
                continue
            until = min(job.scenario.quiet_until for job in group)
            name = sha256(f"{key} {until}".encode()).hexdigest()[:16]
            path = Path(folder or self._folder.name, f"{name}.warm")
            if not path.exists():
                self.due[path] = (group[0].scenario, group[0].seed, path, until)
            self._paths.update({id(job): path for job in group})

    def __enter__(self) -> SharedWarmUps:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def path(self, job: Job) -> Path | None:
        """The file that `job` may start from; None if no other job has its warm-up."""
        return self._paths.get(id(job))

    def take(self, job: Job, progress: Progress | None = None) -> Path | None:
        """The same, made if it isn't there yet."""
        path = self.path(job)
        if path is not None and path in self.due:
            keep_warm_up(*self.due.pop(path), progress)
        return path


def jobs_for(scenarios: dict[str, Scenario], seeds: Iterable[int]) -> list[Job]:
    """Every scenario with every seed."""
    return [Job(label, scenario, seed) for label, scenario in scenarios.items() for seed in seeds]
