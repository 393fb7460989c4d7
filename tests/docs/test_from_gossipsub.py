"""The guide for users of GossipSub names parameters that exist on either side."""

from __future__ import annotations

import inspect
import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
from libp2p.pubsub.gossipsub import GossipSub

import episub_router
from tests.docs.moved import AFTER, BEFORE
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


@pytest.mark.hosts
def test_three_lines_move_an_application_of_three_topics_with_validators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = zip(BEFORE.splitlines(), AFTER.splitlines(), strict=True)
    assert len([new for old, new in lines if old != new]) == 3
    path = tmp_path / "app.py"
    for text in (BEFORE, AFTER):
        path.write_text(text)
        runpy.run_path(str(path), run_name="__main__")
        assert capsys.readouterr().out == "sport 7\nweather rain\n"
