"""What the pages of runs have in common: their style, their charts, their table of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import altair as alt

Row = dict[str, Any]

_HEIGHT = 200
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; margin: 0 auto;
  max-width: 64rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #e4e4e4; }
.bad { color: #b00020; } .good { color: #00684a; } .chart { width: 100%; }
"""


def over(rows: Sequence[Row]) -> Any:
    """A chart of these rows, which are in the page."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def thinned(rows: list[Row], most: int) -> list[Row]:
    """Each nth row, so that there are at most so many."""
    return rows[:: max(1, -(-len(rows) // most))]


def finished(chart: Any) -> Row:
    """The chart's Vega-Lite specification."""
    spec: Row = (
        chart.properties(width="container", height=_HEIGHT)
        .configure(font="system-ui, sans-serif", autosize={"type": "fit-x", "contains": "padding"})
        .configure_view(stroke=None)
        .configure_axis(gridColor="#e4e4e4")
        .configure_legend(orient="top")
        .to_dict()
    )
    return spec


def table(figures: Mapping[str, Any]) -> str:
    """A heading and an element."""
    rows = "".join(
        f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{escape(str(value))}</td></tr>"
        for name, value in figures.items()
    )
    return f"<h2>Figures</h2><table>{rows}</table>"
