"""Pictures of a run: degrees, latency, and how redundancy and depth change by message."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

Format = Literal["svg", "png"]


def draw(summaries: Mapping[str, Mapping[str, Any]], out: Path, kind: Format = "svg") -> list[Path]:
    """Write the pictures of the runs in `summaries`, by name, into the directory `out`.

    Returns the files. Raises ImportError without matplotlib.
    """
    pyplot = without_a_screen()
    written = []
    for name, title, x, y, fill in (
        ("degree", "Overlay degree", "neighbours", "share of nodes", _degrees),
        ("latency", "Delivery latency", "ms from publishing", "share of deliveries", _latency),
        ("rmr", "Redundancy by message", "message", "RMR", _by_message("rmr")),
        ("ldh", "Last delivery hop by message", "message", "hops", _by_message("ldh")),
    ):
        figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
        for label, summary in summaries.items():
            fill(axes, label or str(summary["scenario"]), summary)
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        path = out / f"{name}.{kind}"
        figure.savefig(path, metadata={"Date": None} if kind == "svg" else None, dpi=120)
        pyplot.close(figure)
        written.append(path)
    return written


def without_a_screen() -> Any:
    """matplotlib's pyplot for files, with which the same run gives the same ones. Raises
    ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "episub"
    from matplotlib import pyplot

    return pyplot


def _degrees(axes: Any, label: str, summary: Mapping[str, Any]) -> None:
    counts = summary["phases"][-1]["overlay"].get("degrees", [])
    total = sum(counts) or 1
    axes.plot(range(len(counts)), [c / total for c in counts], marker="o", ms=3, label=label)


def _latency(axes: Any, label: str, summary: Mapping[str, Any]) -> None:
    counts = summary["phases"][-1].get("latency_histogram_ms", [])
    total = sum(counts) or 1
    axes.plot(range(len(counts)), [c / total for c in accumulate(counts)], label=label)


def _by_message(key: str) -> Any:
    def fill(axes: Any, label: str, summary: Mapping[str, Any]) -> None:
        values = summary["messages"][key]
        axes.plot(range(1, len(values) + 1), values, marker=".", ms=4, lw=1, label=label)

    return fill
