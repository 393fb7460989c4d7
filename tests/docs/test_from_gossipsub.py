"""The guide for users of GossipSub names parameters that exist on either side."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

from libp2p.pubsub.gossipsub import GossipSub

import episub_router
from tests.docs.snippets import ROOT

TEXT = (ROOT / "docs" / "from-gossipsub.md").read_text()


def test_parameters_of_gossipsub() -> None:
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.M)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert len(named) > 10
    assert named <= set(inspect.signature(GossipSub.__init__).parameters)


def test_parameters_of_episub() -> None:
    named = re.findall(r"`(\w+Params)\.(\w+)`", TEXT)
    assert len(named) >= 4
    for owner, name in named:
        params = getattr(episub_router, owner)
        assert name in {spec.name for spec in fields(params)}
