"""A pytest plugin for py-libp2p's own tests: EpisubRouter where they ask for a GossipSub host.

    UPSTREAM_MODE=episub UPSTREAM_REPORT=report.json python -m pytest -p plugin tests/core/pubsub

Run from the unpacked source distribution, with this directory in PYTHONPATH. `UPSTREAM_MODE` is
"episub", or "fallback" for a router that doesn't offer Episub. The report has, for each test,
its outcome, the text of a failure, whether it got an EpisubRouter, and what it looked for in
that router that only a GossipSub has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from libp2p.abc import INetStream
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubRouter, FallbackParams, MembershipParams

MODE = os.environ.get("UPSTREAM_MODE", "episub")


@dataclass
class Record:
    """What became of one test."""

    outcome: str = "not run"
    seconds: float = 0.0
    error: str = ""
    substituted: bool = False
    missed: list[str] = field(default_factory=list)
    """Attributes of GossipSub that the test asked its router for in vain."""
    refused: list[str] = field(default_factory=list)
    """Arguments of GossipSub that an EpisubRouter has nothing for."""
    needs_rsa: bool = False
    """An RSA key takes 0.3 s to make, and is what few tests are about."""


_OURS = FallbackParams()
DEFAULTS = {
    name: parameter.default for name, parameter in signature(GossipSub).parameters.items()
} | {name: getattr(_OURS, name) for name in ("degree", "degree_low", "degree_high", "protocols")}

RECORDS: dict[str, Record] = {}
_current = Record()


class Substitute(EpisubRouter):
    """An EpisubRouter that notes what it is asked for and hasn't got."""

    degree_low = MembershipParams().random_links  # for `subscribed_mesh`, which waits for as many

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name not in _current.missed:
            _current.missed.append(name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


def _substitute(cls: Any, model: Any, *_: Any, **options: Any) -> Substitute:
    """What the test asked of its GossipSub, less what is refused."""
    _current.substituted = True
    while True:
        try:
            made = Substitute.from_gossipsub(**options, offer_episub=MODE == "episub")
        except ValueError as error:
            refused = [name for name in options if name in str(error)]
            if not refused:
                raise
            _current.refused += refused
            for name in refused:
                options[name] = DEFAULTS[name]
        else:
            assert isinstance(made, Substitute)
            return made


async def _outlive_the_end(
    self: Pubsub, stream: INetStream, handle: Any = Pubsub.stream_handler
) -> None:
    """libp2p 0.8.1's Pubsub raises into its swarm over a frame that comes in while it stops: its
    nursery is closed a moment before its manager says so. It fails a test here and there."""
    try:
        await handle(self, stream)
    except RuntimeError as error:
        if "Nursery is closed" not in str(error):
            raise


def pytest_collection_modifyitems() -> None:
    # Only now: importing it any earlier would take the `tests` of another directory.
    from tests.utils import factories  # type: ignore[attr-defined]

    factories.GossipsubFactory._create = classmethod(_substitute)
    make_rsa_key = factories.generate_new_rsa_identity
    factories.generate_new_rsa_identity = lambda: (
        make_rsa_key() if _current.needs_rsa else create_new_key_pair(os.urandom(32))
    )
    GossipSub.register(EpisubRouter)
    Pubsub.stream_handler = _outlive_the_end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _current
    _current = RECORDS[item.nodeid] = Record(needs_rsa="signing" in item.name)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    record = RECORDS[report.nodeid]
    record.seconds += report.duration
    if report.failed or record.outcome == "not run":
        record.outcome = report.outcome
    if report.failed and not record.error:
        record.error = report.longreprtext[-2000:]


def pytest_sessionfinish() -> None:
    path = Path(os.environ["UPSTREAM_REPORT"])
    path.write_text(
        json.dumps({name: asdict(record) for name, record in RECORDS.items()}, indent=1)
    )
