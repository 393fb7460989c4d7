"""Which peers fared worst and why, cuts by what they are, and the rows behind all figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from episub_router.pipeline.report.tables import groups
from tests.pipeline.reports import gathered, small_report

if TYPE_CHECKING:
    from tests.pipeline.conftest import Swept


DEADLINE = 3_000_000_000


@pytest.mark.spark
def test_the_worst_peers_are_named_with_why(swept: Swept) -> None:

    names = ["parted", "stopped", "episub-churn-1"]
    report = gathered(swept.lake, names, worst=3, enough=1)
    for run in report.runs:
        lacking: dict[str, list[int]] = {}
        for row in swept.table("arrivals", run.name, layer="silver"):
            if row.live and not row.origin:
                counts = lacking.setdefault(row.peer, [0, 0, 0])
                counts[0] += not row.delivered
                counts[1] += bool(row.delivered and (row.latency or 0) > DEADLINE)
                counts[2] += 1
        wanted = sorted((counts[:2] for counts in lacking.values()), reverse=True)[:3]
        assert [[row["missing"], row["late"]] for row in run.worst] == wanted
        for peer in run.worst:
            assert [peer["missing"], peer["late"], peer["expected"]] == lacking[peer["peer"]]
    parted, stopped, _ = report.runs
    assert all(row["why"].endswith(" cut") for row in parted.worst)
    assert stopped.worst[0]["peer"] == "p7"


def test_why_a_peer_fared_as_it_did() -> None:
    from episub_router.pipeline.report.rows import reason

    usual = {"missing": 0, "late": 0, "causes": None, "latency": 10, "usual_latency": 10,
             "hops": 2.0, "usual_hops": 2.0}  # fmt: skip
    assert reason(usual) == "nothing lacks"
    assert "deep in the trees, 4.0 hops where the mean is 2.0" in reason({**usual, "hops": 4.0})
    assert "is slow" in reason({**usual, "late": 1, "latency": 20})
    both = reason({**usual, "late": 2, "causes": "2 overlay, 1 cut", "hops": 4.0})
    assert both.startswith("2 overlay, 1 cut; deep")


@pytest.mark.spark
def test_a_report_compares_peers_that_have_something_in_common(swept: Swept) -> None:
    """The gold table, with what came after the deadline."""

    names = [*swept.random]
    report = gathered(swept.lake, names)
    for run in report.runs:
        late: Counter[tuple[str, str]] = Counter()
        traits = swept.table("traits", run.name, layer="silver")
        for row in swept.table("arrivals", run.name, layer="silver"):
            if row.live and not row.origin and row.delivered and (row.latency or 0) > DEADLINE:
                late.update((of.trait, of.value) for of in traits if of.peer == row.peer)
        wanted = [
            row.asDict() | {"late": late[row.trait, row.value]}
            for row in swept.table("groups", run.name, "trait", "value")
        ]
        assert [{"run": run.name, **row} for row in run.groups] == wanted
    assert {row["trait"] for run in report.runs for row in run.groups} == {
        "software", "protocol", "region"
    }  # fmt: skip
    assert sum(row["expected"] for run in report.runs for row in run.groups)


def test_what_all_peers_have_in_common_is_no_cut() -> None:
    named = groups(small_report())
    shown = {title: len(table.rows) for title, table in named.items()}
    assert shown == {"By software": 0, "By protocol": 4, "By region": 4}


@pytest.mark.spark
def test_all_rows_behind_the_figures(
    swept: Swept, episub: Callable[[list[str]], int], tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert")
    from episub_router.pipeline.report.queries import RAW

    name = "episub-churn-1"
    (tmp_path / "there").mkdir()
    page, rows = tmp_path / "page.html", tmp_path / "there" / "rows.jsonl"
    out = [f"--out={path}" for path in (page, rows)]
    assert episub(["report", name, "--lake", swept.lake.root, *out]) == 0
    found = Counter(json.loads(line)["table"] for line in rows.read_text().splitlines())
    assert found == {
        table: count
        for layer, tables in RAW.items()
        for table in tables
        if (count := len(swept.table(table, name, layer=layer)))
    }
    assert 'href="there/rows.jsonl"' in page.read_text()
