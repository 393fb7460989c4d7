"""The pictures of the results, docs/results/NAME.svg: Episub's figures beside gossipsub's.

One file for light and dark: its colours follow the reader's scheme. Two stand side by side on a
page, one below the other on a telephone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tests.results.files import FOLDER
from tests.results.tables import row_of, rows_of, written

_WIDTH, _MARGIN, _LABEL, _BAR, _STEP, _TITLE = 336, 8, 138, 11, 34, 66
"""Pixels: of a picture, around it, its labels, one bar, from group to group, above the first."""

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 14px }
.unit, .figure { fill: #57606a; font-size: 11px }
.ground { fill: #ffffff } .episub { fill: #0969da } .gossipsub { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .unit, .figure { fill: #9198a1 }
  .ground { fill: #0d1117 } .episub { fill: #4493f8 } .gossipsub { fill: #656c76 }
}"""

Group = tuple[str, float | None, float | None]
"""A label, Episub's figure and gossipsub's; None where it wasn't measured or didn't arrive."""


@dataclass(frozen=True, slots=True)
class Panel:
    file: str
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
    for file, title, unit, key, name in (
        ("copies", "Copies of a payload", "for each delivery", "payloads", "copies"),
        ("latency", "Latency, 99th percentile", "ms", "p99_ms", "p99_ms"),
    ):
        groups = [(label, *_pair(*place, key)) for label, *place in situations]
        yield Panel(file, title, unit, name, groups)
    phases = ("before", "the next second", "the two seconds after", "from then on")
    yield Panel(
        "crash", "A tenth of the nodes crashes", "control bytes for each delivery; five sources",
        "control_bytes",
        [(phase, *_pair("crash", "uniform", phase, "control_bytes")) for phase in phases],
    )  # fmt: skip
    yield Panel(
        "churn", "Churn: 1 % of the nodes a second", "control bytes for each delivery",
        "control_bytes",
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
        "large", "Large messages over 20 Mbit/s", "s, median; –: not all came", "seconds", sizes
    )
    attacks = [
        ("no attack" if attack == "none" else attack, *_attack(attack))
        for row in rows_of("hostile", phase="before", router="episub")
        if (attack := row["variant"].partition(", ")[2]) in _ATTACKS
    ]
    yield Panel(
        "attacks", "A fifth of the nodes attacks", "ms, 99th percentile in the second minute",
        "p99_ms", attacks,
    )  # fmt: skip


_ATTACKS = ("none", "censor", "covert censor", "covert flash", "IHAVE liar", "late greedy")
"""Those that both routers are exposed to."""


def _attack(attack: str) -> tuple[float | None, float | None]:
    return _pair("hostile", attack, "second minute", "p99_ms")


def pictures() -> dict[Path, str]:
    """Each picture as SVG, with its file."""
    found: dict[Path, str] = {}
    drawn = [panel for panel in panels() if any(own for _, own, _ in panel.groups)]
    for pair in (drawn[first : first + 2] for first in range(0, len(drawn), 2)):
        rows = max(len(panel.groups) for panel in pair)
        found |= {FOLDER / f"{panel.file}.svg": _draw(panel, rows) for panel in pair}
    return found


def _draw(panel: Panel, rows: int) -> str:
    most = max(value for _, *values in panel.groups for value in values if value is not None)
    scale = (_WIDTH - 2 * _MARGIN - _LABEL - 38) / most
    height = _TITLE + _STEP * rows
    size = f'width="{_WIDTH}" height="{height}" viewBox="{-_MARGIN} 0 {_WIDTH} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(panel.title)}</title>\n<style>{_STYLE}\n</style>",
        f'<rect class="ground" x="{-_MARGIN}" y="0" width="{_WIDTH}" height="{height}"/>',
        f'<text class="title" x="0" y="18">{escape(panel.title)}</text>',
        f'<text class="unit" x="0" y="34">{escape(panel.unit)}</text>',
    ]
    for x, router, name in (
        (0, "episub", "Episub"),
        (64, "gossipsub", "gossipsub v1.1, simulated"),
    ):
        lines.append(f'<rect class="{router}" x="{x}" y="43" width="{_BAR}" height="{_BAR}"/>')
        lines.append(f'<text class="unit" x="{x + _BAR + 5}" y="52">{name}</text>')
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
    return "\n".join([*lines, "</svg>\n"])


def _figure(name: str, value: float) -> str:
    return f"{value:.2f}" if name in ("copies", "seconds") else written(name, value)
