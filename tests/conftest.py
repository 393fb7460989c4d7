"""How tests are divided among the workers of pytest-xdist, and what a busy machine changes."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# By default an example fails after 200 ms, which says more about the machine than about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Simulated networks are made of millions of small objects: with Python's 700 in place of this, a
# twelfth of their time goes into collections that find next to nothing.
gc.set_threshold(100_000, 20, 20)

APART = ("test_cli.py", "test_cluster.py", "test_reading.py", "test_session.py")
"""Files of tests/pipeline that don't need the Spark session that the others share."""

TOGETHER = (
    "tests/protocol/hyparview/test_proximity.py",  # look at one overlay
    "tests/sds/test_twenty_hosts.py",  # forty processes side by side wait for each other
    "tests/trace/test_go.py",  # builds a program
    "tests/upstream/",  # runs py-libp2p's tests once
)


def group(nodeid: str) -> str:
    """Tests of one group run in one worker, one after another; most are a group of their own.

    By the path and not by `xdist_group` marks: xdist 3.8 doesn't see these under pytest 9.2.
    """
    path = nodeid.partition("::")[0]
    if path.startswith("tests/pipeline/") and not path.endswith(APART):
        return "spark"
    return next((together for together in TOGETHER if path.startswith(together)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)
