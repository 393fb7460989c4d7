"""The report: its figures are the tables', its page opens anywhere and asks nobody for anything."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episub_router.pipeline.report.drawing import draw
from episub_router.pipeline.report.figures import FIGURES, direction, figure, shown_change
from episub_router.pipeline.report.markdown import as_markdown
from episub_router.pipeline.report.model import Report
from episub_router.pipeline.report.tables import headline
from tests.browsers import chromium, opened_page
from tests.pipeline.records import put_records
from tests.pipeline.reports import gathered, small_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Swept

HOSTILE = "</script><script>document.title='owned'</script>|<img src=x onerror=alert(1)>"


# From the lake.


@pytest.fixture(scope="module")
def of_headline(swept: Swept) -> Report:
    episub, gossipsub = swept.headline
    return gathered(swept.lake, [episub], gossipsub)


@pytest.fixture
def queries() -> Any:
    return pytest.importorskip("episub_router.pipeline.report.queries")


def rows_of(columns: str, rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(columns.split(), row, strict=True)) for row in rows]


def test_looks_are_thinned_to_the_last(queries: Any) -> None:
    rows = [(kind, None, time) for kind, count in (("a", 950), ("b", 3)) for time in range(count)]
    found = queries.looks(rows_of("kind topic time", rows), 400)
    assert sorted((row["kind"], row["time"]) for row in found) == [
        *(("a", time) for time in range(1, 950, 3)), *(("b", time) for time in range(3)),
    ]  # fmt: skip


def test_losses_are_summed_before_the_most_frequent_are_chosen(queries: Any) -> None:
    rows: list[Any] = [("a", "reject", f"reason {number}", 11) for number in range(20)]
    rows += [(f"t{number}", "drop", "queue full", 10) for number in range(100)]
    found = queries.most_frequent(rows_of("topic kind reason count", rows), 3)
    assert {row["reason"]: row["count"] for row in found} == {
        "queue full": 1000, "reason 0": 11, "reason 1": 11,
    }  # fmt: skip


def test_the_faults_that_took_the_most_nodes(queries: Any) -> None:
    faults = rows_of("topic time nodes", [("t", time, 1 + time % 7) for time in range(50)])
    assert [row["time"] for row in queries.largest(faults, 4)] == [6, 13, 20, 27]


def test_the_faults_that_cost_the_most(queries: Any) -> None:
    rows = [{"begin": at, "peers": [], "late": at % 5, "lost": at % 3} for at in range(100)]
    assert [row["begin"] for row in queries.largest(rows, 4, *queries.COST)] == [14, 29, 44, 59]


def test_a_step_of_a_distribution_has_its_last_row(queries: Any) -> None:
    rows = rows_of("millisecond share", [(ms, (ms + 1) / 100) for ms in range(100)])
    assert [row["millisecond"] for row in queries.thinned(rows, 4)] == [24, 49, 74, 99]
    assert queries.thinned(rows[99:], 4) == rows[99:]


def test_headers_that_differ_say_everything(queries: Any) -> None:
    said = [json.dumps({"router": name, "software": "s", "seed": None, "written": number})
            for number, name in enumerate(("gossipsub", "episub", "episub"))]  # fmt: skip
    wanted = {"router": "episub, gossipsub", "software": "s", "simulated": False}
    assert queries.about(said, 9) == wanted
    assert queries.about(said, 1)["router"] == "episub"


@pytest.mark.spark
def test_a_topic_without_a_name_has_one_here(spark: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer

    lake = Lake(spark, str(tmp_path / "lake"))
    events = [
        {"event": "publish", "peer": "a", "time": 5, "message": "m"},
        {"event": "deliver", "peer": "b", "time": 7, "message": "m", "remote": "a"},
        {"event": "join", "peer": "b", "time": 1, "topic": "t"},
        {"event": "publish", "peer": "a", "time": 6, "message": "n", "topic": "t"},
    ]
    put_records(lake, {"r": events})
    for _ in answer(lake, AnswerParams()):
        pass
    report = gathered(lake, ["r"])
    assert [topic.label for topic in report.topics] == ["r · (no topic)", "r · t"]
    assert [len(topic.messages) for topic in report.topics] == [1, 1]
    assert "(no topic)" in as_markdown(report)


@pytest.mark.spark
def test_the_figures_are_the_simulators(swept: Swept, of_headline: Report) -> None:
    for topic in of_headline.topics:
        summary = swept.summaries[topic.run]
        for name in ("reliability", "rmr", "ldh"):
            assert [row[name] for row in topic.messages] == summary["messages"][name]
        values = summary["messages"]
        assert topic.figures["messages"] == len(values["rmr"])
        assert topic.figures["rmr"] == pytest.approx(math.fsum(values["rmr"]) / len(values["rmr"]))
        assert topic.figures["rmr_last"] == values["rmr"][-1]
        assert topic.figures["missing"] == summary["unexplained"] == 0
        slowest = max(phase["latency"]["max"] for phase in summary["phases"])
        assert topic.figures["latency_max"] == pytest.approx(slowest * 1e9)
        assert topic.latencies[-1][1] == 1.0
        by_phase = [phase["latency_histogram_ms"] for phase in summary["phases"]]
        in_time = sum(sum(histogram[:3_000]) for histogram in by_phase)
        assert topic.figures["on_time"] == in_time / sum(map(sum, by_phase))


@pytest.mark.spark
def test_the_tree_is_that_of_a_message(of_headline: Report) -> None:
    for topic in of_headline.topics:
        drawing = topic.drawing
        assert drawing is not None
        assert len(drawing.tree) == len(drawing.peers) - 1 == 19
        assert drawing.left_out == 0
        # Episub's messages go along links of the overlay; gossipsub's publisher floods.
        along = {(min(pair), max(pair)) for pair in drawing.tree if drawing.kind == "active"}
        assert along <= set(drawing.overlay)
    assert [topic.drawing.kind for topic in of_headline.topics if topic.drawing] == [
        "eager", "active",
    ]  # fmt: skip


@pytest.mark.spark
def test_long_curves_are_thinned(swept: Swept) -> None:
    name = "episub-churn-1"
    (run,) = gathered(swept.lake, [name], points=5, drawn=4, reasons=1).runs
    (topic,) = run.topics
    messages = swept.table("messages", name, "index")
    assert [row["index"] for row in topic.messages] == [0, 3, 6, 9, 12]
    assert topic.messages[0]["rmr"] == pytest.approx(sum(row.rmr for row in messages[:3]) / 3)
    assert len(topic.latencies) <= 6
    assert topic.latencies[-1][1] == 1.0
    assert len(run.load) <= 7
    assert len(run.losses) <= 1
    assert topic.drawing is not None
    assert len(topic.drawing.peers) == 4
    assert topic.drawing.left_out > 0
    assert len(topic.faults) == len(swept.table("recovery", name)) > 0


@pytest.mark.spark
def test_runs_without_answers_are_named(swept: Swept) -> None:
    from episub_router.pipeline.lake import LakeError

    with pytest.raises(LakeError, match="no answers for run nobody"):
        gathered(swept.lake, swept.headline, "nobody")


@pytest.mark.spark
def test_a_side_says_of_all_its_runs_what_it_says(swept: Swept) -> None:
    from episub_router.pipeline.report.tables import faults

    names = ["parted", "sparse cut", "sparse kill"]
    report = gathered(swept.lake, ["whole"], *names)
    assert report.baseline is not None
    (topic,) = report.baseline.topics
    causes = [row for name in names for row in swept.table("causes", name)]
    lost = sum(row.latency is None for row in causes)
    assert sum(map(sum, topic.causes.values())) == len(causes)
    assert topic.missing == {"cut": lost - 2, "down": 2}
    assert f"{lost / 3:.0f} deliveries are missing a run" in headline(report)
    rests = [swept.table("rest", name)[0] for name in names]
    assert topic.rest["messages"] == sum(rest.messages for rest in rests)
    assert [row[0].text for row in faults(report).rows] == names
    for name in names:
        assert any(note.startswith(f"{name}: ") for note in report.notes)


# As text.


@pytest.mark.slow
def test_all_formats_have_the_same_figures() -> None:
    page = pytest.importorskip("episub_router.pipeline.report.html.page")
    report = small_report(slower=2.0)
    # A number and its unit aren't parted.
    markdown, html = as_markdown(report), page.as_html(report).replace("\u00a0", " ")
    data = json.loads(json.dumps(report.to_dict()))
    assert data["runs"][0]["topics"][0]["figures"] == report.runs[0].topics[0].figures
    for one in FIGURES:
        value = report.runs[0].topics[0].figures[one.name]
        shown = one.label in markdown
        assert shown == (value is not None)
        assert (f"<td>{one.label}</td>" in html) == shown
        assert f"<dt>{one.label}</dt>" in html
        if value is not None:
            assert f"<td>{one.shown(value)}</td>" in html
    assert "+100.0 %" in markdown
    assert "worse; too few runs to tell from chance" in markdown
    for note in report.notes:
        assert note in html


def test_names_from_traces_stay_text() -> None:
    markdown = as_markdown(small_report(HOSTILE))
    assert "<script" not in markdown.replace("\\<", "")
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) <= 11


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "data")]


@pytest.mark.slow
def test_the_page_points_nowhere() -> None:
    page = pytest.importorskip("episub_router.pipeline.report.html.page")
    parser = _Addresses()
    html = page.as_html(small_report(HOSTILE))
    parser.feed(html)
    assert set(parser.found) == {"data:,", "#definitions"}
    assert "default-src 'none'" in html


@pytest.mark.parametrize(
    ("name", "value", "before", "shown", "tone"),
    [
        ("rmr", 1.5, 1.0, "+50.0 %", "worse"),
        ("rmr", 0.5, 1.0, "-50.0 %", "better"),
        ("rmr", -1.0, -2.0, "+50.0 %", "worse"),
        ("reliability", 0.5, 1.0, "-50.0 %", "worse"),
        ("degree_mean", 2.0, 1.0, "+100.0 %", ""),
        ("missing", 3.0, 0.0, "was 0", "worse"),
        ("missing", 0.0, 0.0, "same", ""),
        ("rmr", None, 1.0, "", ""),
    ],
)
def test_changes(
    name: str, value: float | None, before: float | None, shown: str, tone: str
) -> None:
    assert shown_change(value, before) == shown
    assert direction(figure(name), value, before) == tone


def test_what_is_within_chance_has_no_colour() -> None:
    """Pairs of the same seed say more than two sides do; fewer than three runs say nothing."""
    from episub_router.pipeline.report.comparison import compare

    rmr = figure("rmr")

    def of(*values: float | None, first: int = 1) -> dict[str, float | None]:
        return {str(seed): value for seed, value in enumerate(values, first)}

    clear = compare(rmr, of(1.0, 1.5, 1.2), of(2.0, 2.51, 2.21))
    assert (clear.tone, clear.words) == ("better", "better")
    # Of many topics one is different by chance.
    many = compare(rmr, of(1.0, 1.5, 1.2), of(2.0, 2.51, 2.21), topics=10_000)
    assert (many.tone, many.words) == ("", "within chance")
    assert clear.low is not None
    assert clear.high is not None
    assert -1.2 < clear.low < -1.0 < clear.high < -0.8
    unpaired = compare(rmr, of(1.0, 1.5, 1.2), of(2.0, 2.51, 2.21, first=9))
    assert (unpaired.tone, unpaired.words) == ("", "within chance")
    noisy = compare(rmr, of(1.0, 3.0, 2.0), of(2.1, 1.1, 3.1))
    assert (noisy.tone, noisy.words) == ("", "within chance")
    few = compare(rmr, of(1.0, 1.0), of(9.0, 9.0, 9.0))
    assert (few.tone, few.low) == ("", None)
    assert few.words == "better; too few runs to tell from chance"
    missing = compare(rmr, of(None, None, None), of(1.0, 2.0, 3.0))
    assert (missing.value, missing.tone, missing.words) == (None, "", "")


@pytest.mark.parametrize("kind", ["normal", "lognormal", "poisson"])
def test_sides_that_are_equal_are_rarely_called_different(kind: str) -> None:
    """Of 250 pairs of equal sides, with and without the same seeds, of three and of five runs, at
    most 5 % have any of the figures called different; and what is a different thing is seen."""
    import numpy as np

    from episub_router.pipeline.report.comparison import COMPARED, interval

    name = "missing" if kind == "poisson" else "rmr"
    rng = np.random.default_rng(1)
    draw: dict[str, Callable[[tuple[int, ...]], Any]] = {
        "normal": lambda size: rng.normal(10, 1, size),
        "lognormal": lambda size: rng.lognormal(0, 0.7, size),
        "poisson": lambda size: 1.0 * rng.poisson(3, size),
    }

    def differ(ours: list[float], theirs: list[float], paired: bool) -> bool:
        seeds = [str(seed) for seed in range(len(ours))]
        others = seeds if paired else [f"other {seed}" for seed in seeds]
        found = interval(
            figure(name),
            dict(zip(seeds, ours, strict=True)),
            dict(zip(others, theirs, strict=True)),
        )
        assert found is not None
        return not found[0] <= 0 <= found[1]

    for paired, runs in itertools.product((True, False), (3, 5)):
        sides = draw[kind]((250, COMPARED, 2, runs)).tolist()
        wrong = sum(any(differ(*both, paired) for both in figures) for figures in sides)
        assert wrong <= 0.05 * len(sides), (paired, runs)
        ours, theirs = [1.0, 1.1, 0.9, 1.0, 1.1], [901.0, 900.0, 899.0, 900.0, 901.0]
        assert differ(ours[:runs], theirs[:runs], paired)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("p99<1s", True), ("p99 <= 10ms", True), ("p99<10ms", False), ("lost=0", False),
        ("lost=1", True), ("reliability>=99.9%", True), ("reliability>=1", False),
        ("rmr<=0.5", True), ("proximity_ratio<1", False),
    ],
)  # fmt: skip
def test_budgets(text: str, kept: bool) -> None:
    """A figure that isn't known keeps to none; the baseline isn't judged."""
    from episub_router.pipeline.report.budgets import as_markdown as told
    from episub_router.pipeline.report.budgets import check, parse_budget

    (checked,) = check(small_report(slower=2.0), [parse_budget(text)])
    assert (checked.label, checked.kept) == ("after", kept)
    assert ("all kept" if kept else "1 of 1 broken") in told([checked])


@pytest.mark.parametrize(
    "text", ["p99", "p99<", "speed<1", "p99<1 parsec", "lost=0s", "p99<1.2.3s"]
)
def test_budgets_that_say_nothing(text: str) -> None:
    from episub_router.pipeline.report.budgets import parse_budget

    with pytest.raises(ValueError, match=r"budget|figure|limit|float"):
        parse_budget(text)


def test_a_third_is_not_nothing() -> None:
    missing = figure("missing")
    assert [missing.shown(value) for value in (0, 1 / 3, 2.0, 1234.5)] == [
        "0", "0.333", "2", "1,234"
    ]  # fmt: skip


def test_what_is_nearly_everything_is_not_everything() -> None:
    one = figure("reliability")
    assert one.shown(1.0) == "100.00 %"
    assert one.shown(0.999999) == "99.999900 %"
    assert one.shown(1 - 1e-12) == "> 99.999999 %"


@pytest.mark.slow
@given(st.data())
def test_any_parents_can_be_drawn(data: st.DataObject) -> None:
    peers = [f"p{number}" for number in range(data.draw(st.integers(1, 30)))]
    parents = {
        peer: data.draw(st.sampled_from([*peers, "elsewhere", None]))
        for peer in data.draw(st.lists(st.sampled_from(peers), unique=True))
    }
    links = data.draw(st.lists(st.tuples(st.sampled_from(peers), st.sampled_from(peers))))
    most = data.draw(st.integers(1, 40))
    drawing = draw("m", "p0", parents, links, None, most)
    assert draw("m", "p0", parents, links, None, most, 1000).left_out == 1000 - len(drawing.peers)
    known = {"p0", *parents}
    assert len(drawing.peers) == min(most, len(known))
    assert drawing.left_out == len(known) - len(drawing.peers)
    assert drawing.peers[0] == "p0"
    assert drawing.places[0] == (0, 0)
    assert all(math.hypot(x, y) <= 1.001 for x, y in drawing.places)
    assert len(set(drawing.places)) == len(drawing.places)
    for parent, child in drawing.tree:
        assert parents[drawing.peers[child]] == drawing.peers[parent]
        above, below = drawing.depths[parent], drawing.depths[child]
        assert above is not None
        assert below == above + 1
    assert len(drawing.tree) == sum(depth not in (None, 0) for depth in drawing.depths)


@pytest.mark.parametrize("last", [1, 2, 10, 9_975])
def test_axes_of_whole_numbers(last: int) -> None:
    charts = pytest.importorskip("episub_router.pipeline.report.html.charts")
    drawer = pytest.importorskip("vl_convert")
    rows = [{"index": value, "value": 1} for value in (0, last)]
    x, y = charts._field("index", axis=charts._WHOLE), charts._field("value", axis=None)
    picture = drawer.vegalite_to_svg(charts._layer(rows, "line", {}, x=x, y=y))
    labels = re.findall(r"<text[^>]*>(\d+)<", picture.split("role-axis-label")[1].split("</g>")[0])
    assert len(set(labels)) == len(labels) > 1


def test_without_a_baseline_the_page_compares_nothing() -> None:
    page = pytest.importorskip("episub_router.pipeline.report.html.page")
    compared = small_report()
    alone = replace(compared, baseline=None)
    colours = "Coloured is what differs by more than chance"
    assert colours in page.as_html(compared)
    assert colours not in page.as_html(alone)


def test_tables_are_folded_under_a_name() -> None:
    """Not under the headings of their columns."""
    page = pytest.importorskip("episub_router.pipeline.report.html.page")
    folded = {
        text.rsplit(" (", 1)[0]
        for text in re.findall(r"<summary>(.*?)</summary>", page.as_html(small_report()))
    }
    assert folded >= {
        "What is missing", "Duplicates", "Rejected, dropped, discarded", "Control messages",
        "Faults and repairs", "How evenly it is borne",
    }  # fmt: skip


def test_a_message_that_nobody_got_is_a_cross_and_no_dip() -> None:
    charts = pytest.importorskip("episub_router.pipeline.report.html.charts")
    layers = charts.charts(small_report())["timeline"]["layer"]
    drawn = {layer["mark"]["type"] + layer["mark"].get("shape", ""): layer["data"]["values"]
             for layer in layers}  # fmt: skip
    assert {(row["after"], row["ms"]) for row in drawn["line"]} == {(1.0, 5.0)}
    assert {(row["after"], row["ms"]) for row in drawn["pointcross"]} == {(2.0, 3000.0)}


def test_a_run_without_calm_has_no_p99_without_faults() -> None:
    report = small_report()
    assert "; p99 without them 6.0 ms)" in headline(report)
    for topic in report.topics:
        topic.rest["latency_p99"] = None
    assert "were met by faults or slow links)" in headline(report)


def test_a_page_is_made_without_a_cache_and_keeps_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = pytest.importorskip("episub_router.pipeline.report.html.document")
    bundles = iter(["unkept", "kept"])
    monkeypatch.setattr(document.vl_convert, "javascript_bundle", lambda _: next(bundles))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").touch()
    made = []
    for _ in range(3):
        document.javascript.cache_clear()
        made.append(document.javascript())
        if (tmp_path / "cache").is_file():
            (tmp_path / "cache").unlink()
    document.javascript.cache_clear()
    assert made == ["unkept", "kept", "kept"]


# In a browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_in_chromium(browser: Any, tmp_path: Path, width: int) -> None:
    page_of = pytest.importorskip("episub_router.pipeline.report.html.page")
    path = tmp_path / "report.html"
    path.write_text(page_of.as_html(small_report(HOSTILE)), encoding="utf-8")
    told: list[str] = []
    asked: list[str] = []
    page = opened_page(browser, width)
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-charts]", timeout=60_000)
    assert told == []
    assert asked == [path.as_uri()]
    assert page.title() == "Broadcast report"
    charts = page.evaluate(_CHARTS)
    assert set(charts) == {
        "latency", "timeline", "rmr", "ldh", "degrees", "proximity", "load",
        "tree-0", "tree-1",
    }  # fmt: skip
    for name, chart in charts.items():
        assert chart["marks"] > 0, name
        assert 0.7 * min(width, 512) < chart["width"] <= width, name
    # The answer and its picture are on the first screen, and the rest of two runs isn't long.
    assert page.evaluate(_PICTURE_ENDS) <= 844
    assert page.evaluate("document.documentElement.scrollHeight") <= (
        6000 if width > 1000 else 7500
    )
    # Nothing is cut off at the side, and text can be read.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(_CUT_OFF) == []
    assert page.evaluate(_LEAST_TEXT) >= 11
    # But for ids and names, which may be of any length.
    assert [word for word in page.evaluate(_BROKEN_WORDS) if word not in HOSTILE] == []
    assert page.evaluate(_PARTED) == []
    # Each kind of line is drawn in the legend.
    assert page.evaluate(_UNSEEN_SYMBOLS) == []
    axes = page.evaluate(_AXES)
    assert set(axes) == {name for name in charts if not name.startswith("tree")}
    for name, labels in page.evaluate(_TICKS).items():
        assert all(len(axis) == len({*axis}) for axis in labels), name
    for name, titles in axes.items():
        assert titles, name
        assert all(titles), name
    page.close()


_PICTURE_ENDS = "document.getElementById('timeline').getBoundingClientRect().bottom"
_CHARTS = """Object.fromEntries([...document.querySelectorAll(".chart")].map(div => {
  const svg = div.querySelector("svg");
  return [div.id, {
    width: svg.getBoundingClientRect().width,
    marks: svg.querySelectorAll(".mark-line path, .mark-symbol path, .mark-rule line").length,
  }];
}))"""
_CUT_OFF = """[...document.querySelectorAll(".scroll")]
  .filter(box => box.scrollWidth > box.clientWidth).map(box => box.textContent)"""
_PARTED = """[...document.querySelectorAll("td, p, li")].map(item => item.textContent)
  .filter(text => /[0-9] (ms|s|B|%)( |$)|[0-9][ \\u00a0]of [0-9]/.test(text))"""
"""Numbers that may be parted from their unit."""
_UNSEEN_SYMBOLS = """[...document.querySelectorAll(".role-legend-symbol path")]
  .filter(path => (path.getAttribute("stroke") || "none").match(/none|transparent/) &&
    (path.getBBox().height === 0 || (path.getAttribute("fill") || "none") === "none"))
  .map(path => path.outerHTML)"""
_LEAST_TEXT = """Math.min(...[...document.querySelectorAll("td, p, li, dd, svg text")]
  .filter(item => item.textContent.trim())
  .map(item => parseFloat(getComputedStyle(item).fontSize)))"""
_BROKEN_WORDS = """(() => {
  const broken = [], range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("script, style, svg, .id")) continue;
    for (const word of node.data.matchAll(/[A-Za-z]+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()"""
"""Words of letters that are on more than one line."""
_TICKS = """Object.fromEntries([...document.querySelectorAll(".chart")].map(div => [div.id,
  [...div.querySelectorAll(".role-axis-label")]
    .map(axis => [...axis.querySelectorAll("text")].map(text => text.textContent).filter(Boolean))
]))"""
"""The labels of each chart's axes."""
_AXES = """Object.fromEntries([...document.querySelectorAll(".chart")].map(div => [div.id,
  [...div.querySelectorAll(".role-axis")]
    .filter(axis => axis.querySelector(".role-axis-label text"))
    .map(axis => (axis.querySelector(".role-axis-title text") || {textContent: ""}).textContent)
]).filter(([id, titles]) => titles.length))"""
"""The titles of each chart's axes that have labels."""
