"""How tests are divided among the workers of pytest-xdist, and what a busy machine changes."""

from __future__ import annotations

import gc
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# By default an example fails after 200 ms, which says more about the machine than about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Simulated networks are made of millions of small objects: with Python's 700 in place of this, a
# twelfth of their time goes into collections that find next to nothing.
gc.set_threshold(100_000, 20, 20)

# A shell has what it starts in the background ignore Ctrl-C, and its children, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

APART = ("test_cli.py", "test_cluster.py", "test_reading.py", "test_session.py")
"""Files of tests/pipeline that don't need the sessions that the others share."""

TOGETHER = (
    "tests/docs/test_site.py",  # builds the site once
    "tests/protocol/hyparview/test_proximity.py",  # look at one overlay
    "tests/protocol/test_network.py",  # begin with the same overlays
    "tests/sds/test_twenty_hosts.py",  # thirty processes side by side wait for each other
    "tests/sim/test_adversaries.py",  # look at the same runs
    "tests/sim/test_determinism.py",  # has runs in one other process
    "tests/trace/test_go.py",  # builds a program
    "tests/upstream/",  # runs py-libp2p's tests once
)


LONGEST = (
    "spark",
    "tests/sds/test_twenty_hosts.py",
    "tests/interop/",  # waits for most of its time, as the others compute
    "tests/pipeline/test_cluster.py",
    "tests/testbed/test_run.py",
    "tests/sim/test_experiments.py",
    "tests/protocol/test_machine.py",
    "tests/sim/test_determinism.py",
    "tests/upstream/",
    "tests/sim/",
    "tests/router/",
    "tests/cli/",
    "tests/docs/",
    "tests/house/test_children.py",
    "tests/protocol/test_network.py",
    "tests/protocol/hyparview/test_proximity.py",
    "tests/protocol/plumtree/test_tree_model.py",
)
"""Groups by what they begin with, those that take longest first: begun last, one of them would run
alone at the end."""


def group(nodeid: str) -> str:
    """Tests of one group run in one worker, one after another; most are a group of their own.

    By the path and not by `xdist_group` marks: xdist 3.8 doesn't see these under pytest 9.2.
    """
    path = nodeid.partition("::")[0]
    if path.startswith("tests/pipeline/") and not path.endswith(APART):
        return "spark"
    return next((together for together in TOGETHER if path.startswith(together)), nodeid)


def rank(group: str) -> int:
    """The place of a group in the order in which workers take them."""
    found = (place for place, begin in enumerate(LONGEST) if group.startswith(begin))
    return next(found, len(LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # In the workers: whoever runs one file wants its order.
    if hasattr(config, "workerinput") and not config.getoption("--interop-table", False):
        items.sort(key=lambda item: rank(group(item.nodeid)))


def pytest_collection_finish() -> None:
    # What is there before the first test stays: a collection needs a quarter of a second for it,
    # and simulations begin with one.
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    # The order is `LONGEST`, not that of the number of tests in a group.
    config.option.loadscopereorder = False

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)
