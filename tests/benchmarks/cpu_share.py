"""Whose code a host's CPU time goes to, where hosts run Episub: by package, under cProfile.

    python -m tests.benchmarks.cpu_share [--hosts 20] [--messages 60]

The load and the hosts of `router_vs_gossipsub`, in a time that passes as they compute. A built-in
function counts for the package that called it. With the compiled core on PYTHONPATH, that
core's share is the compiled one's; what it calls inside itself doesn't show.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections import defaultdict
from typing import Any, TypeAlias

from tests.benchmarks.measuring import Load, measure

Function: TypeAlias = tuple[str, int, str]

_PACKAGES = {
    "episub_router/protocol": "Episub's core",
    "episub_router.protocol": "Episub's core",
    "episub_router/": "Episub's router and Pubsub",
    "tests/": "the benchmark",
    "/libp2p/": "py-libp2p",
    "/trio/": "trio",
    "/google/": "protobuf",
    "/cryptography/": "cryptography",
    "/noise/": "noise",
    "/nacl/": "cryptography",
}


def package_of(function: Function) -> str | None:
    """Whose function that is; None for a built-in one."""
    path, _, name = function
    named = path if path not in ("~", "") else name
    return next((of for part, of in _PACKAGES.items() if part in named), None)


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds by package."""
    seconds: defaultdict[str, float] = defaultdict(float)
    # typeshed doesn't know of `stats`.
    stats: Any = pstats.Stats(profile)
    for function, (_, _, own_time, _, callers) in stats.stats.items():
        package = package_of(function)
        if package is not None or function[0] not in ("~", ""):
            seconds[package or "the rest"] += own_time
            continue
        for caller, (_, _, time, _) in callers.items():
            seconds[package_of(caller) or "the rest"] += time
    return dict(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--messages", type=int, default=60)
    args = parser.parse_args()
    load = Load(
        hosts=args.hosts, messages=args.messages, warm_up=20, rate=5.0, size=256, sources=1,
        settle=20.0, idle=8.0, muxer="YAMUX", seed=1, computing_clock=True,
    )  # fmt: skip
    profile = cProfile.Profile()
    result = profile.runcall(measure, "episub", load)
    print(f"CPU ms per delivery, profiled: {result['cpu_ms_per_delivery']:.2f}")
    found = shares(profile)
    total = sum(found.values())
    for package, seconds in sorted(found.items(), key=lambda entry: -entry[1]):
        print(f"{package:28} {seconds:7.1f} s {seconds / total:6.1%}")


if __name__ == "__main__":
    main()
