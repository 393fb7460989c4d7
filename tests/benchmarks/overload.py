"""Hosts that get too little of a core, and then enough again: Episub and GossipSub in one run.

    python -m tests.benchmarks.overload --hosts 20 --quota 0.5 0.25

All hosts of a router are in one process and publish at a fixed rate: first with the whole machine,
then with a quota of a core, then without. Under the quota the process is stopped for a share of
each tenth of a second (SIGSTOP, SIGCONT).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import trio

from tests.benchmarks.contenders import CONTENDERS, Contender
from tests.benchmarks.scenes import COMPARED, Arrivals, percentile, scene, until_linked

_PERIOD = 0.1
"""Seconds, of a quota: as the kernel's."""

_SETTLE = 20.0
"""Seconds after the last host has links: their first upkeep is over."""

_PHASES = ("before", "under the quota", "after")


class _DutyCycle:
    """Stops a process for a part of each period."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._share: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def limit(self, share: float | None) -> None:
        self._share = share

    def _run(self) -> None:
        while not self._closed.is_set():
            share = self._share or 1.0
            with suppress(ProcessLookupError):
                if share < 1:
                    os.kill(self._pid, signal.SIGSTOP)
                    time.sleep((1 - share) * _PERIOD)
                    os.kill(self._pid, signal.SIGCONT)
            time.sleep(share * _PERIOD)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


# The process with the hosts: it says when a phase begins, and what came of all.


async def _hosts(contender: Contender, hosts: int, rate: float, counts: Sequence[int]) -> None:
    async with scene(contender, hosts) as (nodes, subscriptions), trio.open_nursery() as nursery:
        await until_linked(nodes)
        await trio.sleep(_SETTLE)
        arrivals = Arrivals(_PATIENCE)
        for node, subscription in zip(nodes, subscriptions, strict=True):
            nursery.start_soon(arrivals.read, node, subscription)
        began = []
        for phase, count in zip(_PHASES, counts, strict=True):
            _say(phase=phase)
            start = trio.current_time()
            began.append(start)
            for number in range(count):
                await trio.sleep_until(start + number / rate)
                with suppress(Exception):  # A publisher that is refused has lost its message.
                    await arrivals.publish(nodes[0], 256)
            await trio.sleep_until(start + count / rate)
        await arrivals.complete(hosts - 1)
        _say(**_result(hosts, counts, arrivals, began))
        nursery.cancel_scope.cancel()


_PATIENCE = 120.0
"""Seconds after the last message in which late ones may come."""


def _result(
    hosts: int, counts: Sequence[int], arrivals: Arrivals, began: list[float]
) -> dict[str, Any]:
    first, phases = 0, []
    for phase, count in zip(_PHASES, counts, strict=True):
        late = arrivals.latencies(first, first + count)
        phases.append(
            {
                "phase": phase,
                "delivered": len(late) / (count * (hosts - 1)),
                "p50": late[len(late) // 2] if late else None,
                "p99": percentile(late, 0.99) if late else None,
                "most": late[-1] if late else None,
            }
        )
        first += count
    # Recovered: from then on every message reaches every host within what was usual before.
    usual = 2 * max(phases[0]["most"] or 0.0, 0.5)
    recovered = began[2]
    for when, times in zip(arrivals.published, arrivals.times, strict=True):
        last = max(times, default=when + _PATIENCE)
        if when >= began[2] and (len(times) < hosts - 1 or last - when > usual):
            recovered = last
    backlog = [at for times in arrivals.times[: sum(counts[:2])] for at in times]
    return {
        "phases": phases,
        "backlog_s": max(0.0, max(backlog, default=0.0) - began[2]),
        "recovered_s": recovered - began[2],
        "cpu_s": time.process_time(),
    }


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


# The process that limits it.


def measure(
    name: str, hosts: int, quota: float, rate: float, counts: Sequence[int]
) -> dict[str, Any]:
    """One run of one router under one quota."""
    command = [sys.executable, "-m", "tests.benchmarks.overload", "--as", name]
    command += ["--hosts", str(hosts), "--rate", str(rate), "--counts", *map(str, counts)]
    result: dict[str, Any] = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        limited = _DutyCycle(process.pid)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                if "phase" in said:
                    limited.limit(quota if said["phase"] == _PHASES[1] else None)
                else:
                    result |= said
        finally:
            limited.close()
            process.kill()
    return result


def _fields(quota: float, name: str, found: dict[str, Any]) -> dict[str, Any]:
    row = {"router": name, "quota": quota, "ended": "phases" in found}
    for phase in found.get("phases", ()):
        what = phase["phase"].partition(" ")[0]
        row |= {f"{what} {key}": phase[key] for key in ("delivered", "p50", "p99")}
    return row | {key: found.get(key) for key in ("backlog_s", "recovered_s", "cpu_s")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--quota", type=float, nargs="+", default=[0.5, 0.25], help="of a core")
    parser.add_argument("--rate", type=float, default=2.0, help="messages/s (default: 2)")
    parser.add_argument("--counts", type=int, nargs=3, default=[20, 60, 40])
    parser.add_argument("--only", nargs="+", default=list(COMPARED[:3]), choices=COMPARED)
    parser.add_argument("--as", dest="name", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.name:
        trio.run(_hosts, CONTENDERS[given.name], given.hosts, given.rate, given.counts)
        return
    for quota in given.quota:
        for name in given.only:
            found = measure(name, given.hosts, quota, given.rate, given.counts)
            print(json.dumps(_fields(quota, name, found)), flush=True)


if __name__ == "__main__":
    main()
