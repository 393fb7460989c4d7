"""The figures and the page of a run."""

from __future__ import annotations

import json
import re

import pytest

from interop.testbed.checker.check import check
from interop.testbed.checker.latency import percentile
from interop.testbed.faults import Fault, FaultKind
from interop.testbed.history.records import Delivered, Lived
from interop.testbed.report.page import page
from interop.testbed.report.summary import lines, summarise
from interop.testbed.scenario import Promises
from tests.testbed.histories import add, drop, history, is_delivery

CUT = Fault(kind=FaultKind.CUT, at=30.0, lasts=12.0, hosts=(3,))
PROMISES = Promises()


def test_figures() -> None:
    made = history(CUT)
    drop(made, is_delivery("m1-2", 3))
    drop(made, is_delivery("m1-3", 3))
    add(made, Delivered(40.0, 2, 0, "m0-1"), Lived(99.0, 0, 0, "leave"))
    violations = check(made, PROMISES)
    figures = summarise(made, PROMISES, violations)
    assert (figures.asked, figures.accepted, figures.deliveries) == (40, 40, 118)
    assert (figures.repeats, figures.missing, figures.missing_near) == (1, 2, 1)
    assert (figures.calm_p50, figures.calm_p99, figures.memory) == (50.0, 50.0, 90.0)
    assert figures.violations["once"] == 1
    text = lines(made, figures, violations)
    assert text[0] == "made up: 4 hosts, 100 s, 1 faults"
    assert text[-1] == f"{len(violations)} violations"


@pytest.mark.slow
def test_the_page_shows_all_and_needs_nothing_else() -> None:
    made = history(CUT)
    made.name = "</script><b>"
    violations = check(made, PROMISES)
    text = page(made, summarise(made, PROMISES, violations), violations)
    found = re.search(r'id="specs">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    specs = json.loads(found[1])
    assert list(specs) == ["deliveries", "latency", "neighbors", "memory", "descriptors"]
    assert all(f'id="{name}"' in text for name in specs)
    assert CUT.text() in text
    assert "<b>" not in text.split("<script")[0]
    assert "src=" not in text.split("<script")[0]


@pytest.mark.slow
def test_a_page_without_faults() -> None:
    made = history()
    assert "No violation" in page(made, summarise(made, PROMISES, []), [])


def test_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([3.0], 0.5) == 3.0
    assert percentile([], 0.5) == 0.0
