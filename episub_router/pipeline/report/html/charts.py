"""The report's charts as Vega-Lite, each as wide as the page."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from episub_router.pipeline.report.model import Drawing, Report, Row, TopicReport

Spec = dict[str, Any]

_HEIGHT = 200
_FIRST = 175
"""Of the timeline, which is on a phone's first screen together with the answer."""
_BASELINE = "#8a8a8a"
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#b15928",
)  # fmt: skip
"""Okabe and Ito's, which people with any colour vision can tell apart, and two more."""
_FAULT_COLOURS = {"cut": "#d55e00", "stopped": "#cc79a7", "down": "#6a3d9a"}
_RED = "#b00020"

_WHOLE = {"format": "d", "labelExpr": "datum.value % 1 ? '' : datum.label"}
"""An axis of whole numbers, of which Vega would label halves."""

_LOOKS = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "config": {
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {"gridColor": "#e4e4e4", "labelFontSize": 12, "titleFontSize": 12},
        "legend": {"orient": "top", "direction": "vertical", "labelLimit": 320,
                   "labelFontSize": 12},
    },
}  # fmt: skip


def charts(report: Report) -> dict[str, Spec]:
    """Vega-Lite specifications by the chart's id. Those with nothing to show are left out."""
    made = {
        "timeline": _timeline(report),
        "latency": _latency(report),
        # The first message costs many times what the others do.
        "rmr": _by_message(report, "rmr", "RMR", "symlog"),
        "ldh": _by_message(report, "ldh", "LDH (hops)", "linear"),
        "degrees": _degrees(report),
        "proximity": _proximity(report),
        "load": _load(report),
    }
    drawn = [topic.drawing for topic in report.topics]
    made |= {f"tree-{n}": _tree(drawing) for n, drawing in enumerate(drawn) if drawing is not None}
    return {name: _LOOKS | chart for name, chart in made.items() if chart}


def _field(name: str, **more: Any) -> Spec:
    """A column of numbers."""
    return {"field": name, "type": "quantitative", **more}


def _named(name: str, **more: Any) -> Spec:
    """A column of names."""
    return {"field": name, "type": "nominal", **more}


def _layer(rows: Iterable[Row], mark: str, looks: Spec, **encoding: Any) -> Spec:
    return {
        "data": {"values": list(rows)},
        "mark": {"type": mark, **looks},
        "encoding": encoding,
    }


def _layered(layers: Sequence[Spec], height: int = _HEIGHT, **more: Any) -> Spec:
    return {"layer": list(layers), "height": height, **more}


def _colour(report: Report, **more: Any) -> Spec:
    first = len(report.baseline.topics) if report.baseline else 0
    return _scale([topic.label for topic in report.topics], first) | more


def _scale(labels: Sequence[str], first: int) -> Spec:
    """A colour for each label, the baseline's for the `first` ones."""
    colours = [
        _BASELINE if place < first else _COLOURS[(place - first) % len(_COLOURS)]
        for place in range(len(labels))
    ]
    return _named("run", title=None, scale={"domain": list(labels), "range": colours})


def _rows(report: Report, rows_of: Callable[[TopicReport], Iterable[Row]]) -> list[Row]:
    return [{"run": topic.label, **row} for topic in report.topics for row in rows_of(topic)]


def _latency(report: Report) -> Spec:
    # The logarithm has no place for less; the notes say how many latencies are negative.
    rows = _rows(
        report, lambda t: ({"ms": max(ms, 1), "share": share} for ms, share in t.latencies)
    )
    if not rows:
        return {}
    deadline = [{"ms": report.deadline * 1000, "text": f"deadline {report.deadline:g} s"}]
    x = _field("ms", title="latency (ms, logarithmic)", scale={"type": "log"})
    y = _field("share", title="share of the deliveries", axis={"format": "%"},
               scale={"domain": [0, 1]})  # fmt: skip
    said = [_named("run"), _field("ms"), _field("share", format=".2%")]
    return _layered([
        _layer(rows, "line", {"interpolate": "step-after", "clip": True}, x=x, y=y,
               color=_colour(report), tooltip=said),
        _layer(deadline, "rule", {"color": _RED, "strokeDash": [6, 4]}, x=_field("ms")),
        _layer(deadline, "text", {"align": "right", "dx": -4, "color": _RED}, x=_field("ms"),
               y={"datum": 0.06}, text=_named("text")),
    ])  # fmt: skip


def _timeline(report: Report) -> Spec:
    """How late each message was, and whether it got to all, with faults as bands."""
    deadline = report.deadline * 1000
    # What got to nobody is a cross on the deadline, and no part of the line.
    rows = _rows(report, lambda topic: (
        {"after": row["after"], "reached": row["reliability"], "lost": row["reliability"] < 1,
         "ms": max(row["latency_p99"] / 1e6, 1) if row["latency_p99"] is not None else deadline,
         "came": row["latency_p99"] is not None}
        for row in topic.messages if row["latency_p99"] is not None or row["reliability"] < 1
    ))  # fmt: skip
    came = [row for row in rows if row["came"]]
    if not rows:
        return {}
    last = max(row["after"] for row in rows)
    x = _field("after", title="since the run began (s)")
    y = _field("ms", title="p99 of a message (ms, logarithmic)", scale={"type": "log"})
    said = [_named("run"), _field("after"), _field("ms"), _field("reached", format=".2%")]
    bands = [
        {"run": run.name, "fault": fault["cause"], "after": fault["after"],
         "until": last if fault["until"] is None else fault["until"], "peers": fault["count"]}
        for run in report.all_runs for fault in run.faults if fault["run"] == run.name
    ]  # fmt: skip
    layers = []
    if bands:
        kinds = [kind for kind in _FAULT_COLOURS if any(band["fault"] == kind for band in bands)]
        scale = {"domain": kinds, "range": [_FAULT_COLOURS[kind] for kind in kinds]}
        colour = _named("fault", title=None, scale=scale)
        about = [_named("run"), _named("fault"), _field("peers"),
                 *(_field(at, format=".1f") for at in ("after", "until"))]  # fmt: skip
        layers.append(_layer(bands, "rect", {"opacity": 0.22}, x=x, x2={"field": "until"},
                             color=colour, tooltip=about))  # fmt: skip
    layers += [
        _layer(came, "line", {"strokeWidth": 1.2}, x=x, y=y, color=_colour(report)),
        _layer(came, "point", {"size": 12, "filled": True, "opacity": 1}, x=x, y=y,
               color=_colour(report, legend=None), tooltip=said),
        _layer((row for row in rows if row["lost"]), "point",
               {"shape": "cross", "size": 40, "color": _RED, "filled": True}, x=x, y=y,
               tooltip=said),
        _layer([{"ms": deadline}], "rule", {"color": _RED, "strokeDash": [6, 4]}, y=_field("ms")),
    ]  # fmt: skip
    # Those that a run's own record tells of.
    recorded = _rows(report, lambda topic: (
        {"after": fault["after"]} for fault in topic.faults
        if fault["ending"] not in _FAULT_COLOURS
    ))  # fmt: skip
    if recorded:
        layers.append(_layer(recorded, "rule", {"color": _RED, "strokeDash": [2, 3]}, x=x))
    return _layered(layers, _FIRST, resolve={"scale": {"color": "independent"}})


def _by_message(report: Report, name: str, title: str, scale: str) -> Spec:
    rows = _rows(report, lambda t: ({"index": r["index"], "value": r[name]} for r in t.messages))
    if not any(row["value"] is not None for row in rows):
        return {}
    return _layer(
        rows, "line", {"point": {"size": 14}},
        x=_field("index", title="message", axis=_WHOLE),
        y=_field("value", title=title + (", logarithmic" if scale == "symlog" else ""),
                 scale={"type": scale}),
        color=_colour(report),
        tooltip=[_named("run"), _field("index"), _field("value", title=title)],
    ) | {"height": _HEIGHT}  # fmt: skip


def _degrees(report: Report) -> Spec:
    rows = _rows(report, lambda topic: (
        {"degree": degree, "peers": peers / sum(counts), "kind": kind}
        for kind, counts in topic.degrees.items() if kind in ("active", "eager")
        for degree, peers in enumerate(counts) if peers
    ))  # fmt: skip
    if not rows:
        return {}
    x = _field("degree", title="links of a peer", axis=_WHOLE)
    y = _field("peers", title="share of the peers", axis={"format": "%"})
    said = [_named("run"), _named("kind"), _field("degree"), _field("peers", format=".1%")]
    dash = _named("kind", title=None, legend={"symbolSize": 400})
    # Apart, since a line that has points is drawn in its legend as one of them.
    return _layered([
        _layer(rows, "line", {"strokeWidth": 1.5}, x=x, y=y, color=_colour(report),
               strokeDash=dash),
        _layer(rows, "point", {"size": 36, "filled": True, "opacity": 1}, x=x, y=y,
               color=_colour(report), tooltip=said),
    ])  # fmt: skip


def _proximity(report: Report) -> Spec:
    rows = _rows(report, lambda topic: (
        {"after": look["after"], "ratio": look["proximity_ratio"]} for look in topic.overlay
        if look["kind"] == "active" and look["proximity_ratio"] is not None
    ))  # fmt: skip
    if not rows:
        return {}
    return _layer(
        rows, "line", {"point": {"size": 14}},
        x=_field("after", title="since the run began (s)"),
        y=_field("ratio", title="proximity ratio", scale={"zero": True}), color=_colour(report),
        tooltip=[_named("run"), _field("after"), _field("ratio")],
    ) | {"height": _HEIGHT}  # fmt: skip


def _load(report: Report) -> Spec:
    runs = report.all_runs
    labels = [run.topics[0].label if len(run.topics) == 1 else run.name for run in runs]
    rows = [
        {"run": label, "share": share, "messages": messages, "bytes": size}
        for label, run in zip(labels, runs, strict=True)
        for share, messages, size in run.load
    ]
    if not any(row["messages"] for row in rows):
        return {}
    return _layer(
        rows, "line", {"interpolate": "step-after"},
        x=_field("share", title="peers, the busiest first", axis={"format": "%"}),
        y=_field("messages", title="messages sent"),
        color=_scale(labels, 1 if report.baseline else 0),
        tooltip=[_named("run"), _field("messages"), _field("bytes")],
    ) | {"height": _HEIGHT}  # fmt: skip


def _tree(drawing: Drawing) -> Spec:
    scale = {"domain": [-1.08, 1.08], "nice": False}
    x, y = (_field(name, axis=None, scale=scale) for name in "xy")

    def lines(pairs: Sequence[tuple[int, int]], colour: str, width: float) -> Spec:
        ends = (
            dict(zip(("x", "y", "x2", "y2"), (*drawing.places[a], *drawing.places[b]), strict=True))
            for a, b in pairs
        )
        looks = {"color": colour, "strokeWidth": width}
        return _layer(ends, "rule", looks, x=x, y=y, x2={"field": "x2"}, y2={"field": "y2"})

    kinds, colours = ("publisher", "peer", "not reached from it"), ("#d55e00", "#0072b2", "#8a8a8a")
    peers = (
        {"peer": peer, "x": place[0], "y": place[1], "depth": depth,
         "what": kinds[2] if depth is None else kinds[depth > 0]}
        for peer, place, depth in zip(drawing.peers, drawing.places, drawing.depths, strict=True)
    )  # fmt: skip
    what = _named("what", title=None, scale={"domain": kinds, "range": colours})
    said = [_named("peer"), _field("depth", title="hops")]
    return _layered([
        lines(drawing.overlay, "#bdbdbd", 0.7),
        lines(drawing.tree, "#0072b2", 1.6),
        _layer(peers, "circle", {"size": 50, "opacity": 1}, x=x, y=y, color=what, tooltip=said),
    ], 360)  # fmt: skip
