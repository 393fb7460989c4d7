"""The picture of the results, docs/results/overview.svg: Episub's figures beside gossipsub's.

One file for light and dark: its colours follow the reader's scheme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tests.results.files import FOLDER
from tests.results.tables import row_of, rows_of, written

PATH = FOLDER / "overview.svg"

_WIDTH, _LABEL, _BAR, _STEP, _TITLE, _GAP = 440, 150, 11, 34, 46, 24
"""Pixels: of a panel, its labels and one bar, from group to group, above the first, between."""

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 14px }
.unit, .figure { fill: #57606a; font-size: 11px }
.episub { fill: #0969da } .gossipsub { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .unit, .figure { fill: #9198a1 }
  .episub { fill: #4493f8 } .gossipsub { fill: #656c76 }
}"""

Group = tuple[str, float | None, float | None]
"""A label, Episub's figure and gossipsub's; None where it wasn't measured or didn't arrive."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: str
    name: str
    """How its figures are written."""
    groups: Sequence[Group]


def _pair(result: str, variant: str, phase: str, key: str) -> tuple[float | None, float | None]:
    own, other = (
        row_of(result, variant=f"{router}, {variant}", phase=phase)
        for router in ("episub", "gossipsub")
    )
    return own.get(key), other.get(key)


def panels() -> Iterator[Panel]:
    """What is drawn, of the results that there are."""
    situations = [
        ("one source", "headline-one", "uniform, one source", "steady"),
        ("five sources", "headline-five", "uniform, five sources", "steady"),
        ("5 % of frames lost", "lossy-trees", "uniform, one source", "steady"),
        ("churn, 1 % a second", "churn-trees", "uniform, one source", "churn"),
        ("10 % just crashed", "crash", "uniform", "the next second"),
    ]
    for title, unit, key, name in (
        ("Copies of a payload", "for each delivery", "payloads", "copies"),
        ("Latency, 99th percentile", "ms; each pair of nodes with a latency of its own", "p99_ms",
         "p99_ms"),
    ):  # fmt: skip
        groups = [(label, *_pair(*place, key)) for label, *place in situations]
        yield Panel(title, unit, name, groups)
    phases = ("before", "the next second", "the two seconds after", "from then on")
    yield Panel(
        "A tenth of the nodes crashes", "control bytes for each delivery; five sources",
        "control_bytes",
        [(phase, *_pair("crash", "uniform", phase, "control_bytes")) for phase in phases],
    )  # fmt: skip
    yield Panel(
        "Churn: 1 % of the nodes a second", "control bytes for each delivery", "control_bytes",
        [
            (f"{of}, {latencies}", *_pair("churn-trees", f"{latencies}, {of}", "churn",
                                          "control_bytes"))
            for of in ("one source", "five sources")
            for latencies in ("uniform", "plane")
        ],
    )  # fmt: skip
    sizes = []
    for label, size in (("128 KiB", "128K"), ("1 MB", "1MB"), ("8 MB", "8MB")):
        rows = [
            row_of("large", variant=f"{router}-uniform-{size}-20", phase="steady")
            for router in ("episub", "gossipsub")
        ]
        own, other = (
            row["p50_ms"] / 1000 if "p50_ms" in row and not row.get("missing") else None
            for row in rows
        )
        sizes.append((label, own, other))
    yield Panel(
        "Large messages over 20 Mbit/s", "s, median; –: not all delivered", "seconds", sizes
    )
    attacks = [
        (attack, *_attack(attack))
        for row in rows_of("hostile", phase="before", router="episub")
        if (attack := row["variant"].partition(", ")[2]) in _ATTACKS
    ]
    yield Panel(
        "A fifth of the nodes attacks", "ms, 99th percentile in the second minute", "p99_ms",
        attacks,
    )  # fmt: skip


_ATTACKS = ("none", "censor", "covert censor", "covert flash", "IHAVE liar", "late greedy")
"""Those that both routers are exposed to."""


def _attack(attack: str) -> tuple[float | None, float | None]:
    return _pair("hostile", attack, "second minute", "p99_ms")


def draw() -> str:
    """The picture as SVG."""
    drawn = [panel for panel in panels() if any(own is not None for _, own, _ in panel.groups)]
    parts, top = [], 30
    for pair in zip(drawn[::2], [*drawn[1::2], *([None] * (len(drawn) % 2))], strict=True):
        height = max(_TITLE + _STEP * len(panel.groups) for panel in pair if panel)
        for column, panel in enumerate(pair):
            if panel:
                parts.append(_panel(panel, column * (_WIDTH + _GAP), top))
        top += height + _GAP // 2
    key = (
        f'<rect class="episub" x="0" y="6" width="{_BAR}" height="{_BAR}"/>'
        '<text x="17" y="16">Episub</text>'
        f'<rect class="gossipsub" x="80" y="6" width="{_BAR}" height="{_BAR}"/>'
        '<text x="97" y="16">gossipsub v1.1 in the same simulated network</text>'
    )
    size = f'width="{2 * _WIDTH + _GAP}" height="{top}" viewBox="0 0 {2 * _WIDTH + _GAP} {top}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
         "<title>Episub beside gossipsub</title>", f"<style>{_STYLE}\n</style>", key, *parts,
         "</svg>\n"]
    )  # fmt: skip


def _panel(panel: Panel, left: int, top: int) -> str:
    most = max(value for _, *values in panel.groups for value in values if value is not None)
    scale = (_WIDTH - _LABEL - 60) / most
    lines = [
        f'<g transform="translate({left} {top})">',
        f'<text class="title" x="0" y="16">{escape(panel.title)}</text>',
        f'<text class="unit" x="0" y="32">{escape(panel.unit)}</text>',
    ]
    for number, (label, *values) in enumerate(panel.groups):
        y = _TITLE + number * _STEP
        lines.append(f'<text x="0" y="{y + _BAR + 4}">{escape(label)}</text>')
        for bar, (router, value) in enumerate(zip(("episub", "gossipsub"), values, strict=True)):
            at = y + bar * (_BAR + 2)
            width = 0.0 if value is None else max(1.0, value * scale)
            text = "–" if value is None else _figure(panel.name, value)
            lines.append(
                f'<rect class="{router}" x="{_LABEL}" y="{at}" width="{width:.1f}" '
                f'height="{_BAR}"/><text class="figure" x="{_LABEL + width + 5:.1f}" '
                f'y="{at + 10}">{text}</text>'
            )
    return "\n".join([*lines, "</g>"])


def _figure(name: str, value: float) -> str:
    return f"{value:.2f}" if name in ("copies", "seconds") else written(name, value)
