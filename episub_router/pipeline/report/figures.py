"""The figures of the verdict: what they are called, what they mean, and which way is better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Unit = Literal["share", "ns", "s", "bytes", "number", "count"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the verdict."""

    name: str
    label: str
    unit: Unit
    better: Literal["more", "less"] | None
    definition: str

    def shown(self, value: float | None) -> str:
        """`value` for people."""
        return "–" if value is None else _SHOWN[self.unit](value)


FIGURES = (
    Figure("bytes_per_delivery", "Bytes per delivery", "bytes", "less",
           "all bytes that were sent in the run, messages and control / deliveries of the run"),
    Figure("deliveries", "Deliveries", "count", None,
           "first receipts at peers that were to get the message, but the publishers"),
    Figure("late", "Deadline misses", "count", "less",
           "pairs of a message and a live peer that had it too late, or never"),
    Figure("messages", "Messages", "count", None, "published in the topic"),
    Figure("reliability", "Reliability", "share", "more",
           "delivered / live peers, mean over the messages; live: subscribed and linked when the "
           "message was published, and stayed or got it"),
    Figure("worst_reliability", "Worst message", "share", "more", "the least reliability"),
    Figure("atomicity", "Atomicity", "share", "more", "messages with reliability 1 / messages"),
    Figure("missing", "Missing", "count", "less", "pairs of a message and a live peer without it"),
    Figure("on_time", "Within the deadline", "share", "more",
           "deliveries within the deadline / (live peers but the publishers)"),
    Figure("latency_p50", "Latency p50", "ns", "less",
           "delivery − publishing; nearest rank over all deliveries"),
    Figure("latency_p99", "Latency p99", "ns", "less", "as p50"),
    Figure("latency_max", "Latency max", "ns", "less", "of all deliveries"),
    Figure("t99", "To 99 % of the peers", "ns", "less",
           "until 99 % of the live peers have it, mean over the messages that get so far"),
    Figure("rmr", "RMR", "number", "less",
           "relative message redundancy: m / (n − 1) − 1, m transmissions to n peers, publisher "
           "included; mean over the messages"),
    Figure("rmr_last", "RMR of the last message", "number", "less", "once the tree has settled"),
    Figure("duplicates_per_delivery", "Duplicates per delivery", "number", "less",
           "(transmissions − deliveries) / deliveries"),
    Figure("ldh", "LDH", "number", "less", "last delivery hop: most hops of a delivery, mean"),
    Figure("mean_hops", "Hops", "number", "less", "mean over deliveries, then messages"),
    Figure("fan_out_max", "Largest fan-out", "count", "less", "most children of a peer in a tree"),
    Figure("stability", "Tree stability", "share", "more",
           "links that the trees of consecutive messages share / links of either"),
    Figure("control_sends", "Control messages per delivery", "number", "less",
           "control messages sent / deliveries of the run"),
    Figure("control_ids", "Message ids per delivery", "number", "less",
           "ids in control messages / deliveries of the run"),
    Figure("control_bytes", "Control bytes per delivery", "bytes", "less",
           "bytes of RPCs without the messages in them / deliveries of the run"),
    Figure("load_gini", "Gini of messages sent", "number", "less",
           "0 if all peers of the run send as many, near 1 if one sends all"),
    Figure("degree_mean", "Degree", "number", None, "links of a peer at the end, mean"),
    Figure("proximity_ratio", "Proximity ratio", "number", "less",
           "mean RTT of the links / mean RTT of all measured pairs, at the end"),
    Figure("components", "Components", "count", "less", "of the overlay at the end"),
    Figure("repaired_after", "Longest repair", "s", "less",
           "from a fault to the first message since which all reach as many as before"),
    Figure("unrepaired", "Faults not seen repaired", "count", "less",
           "before the next fault, or the last message"),
    Figure("causal_violations", "SDS causal violations", "count", "less",
           "deliveries before what they depend on"),
)  # fmt: skip
"""In the order of the page. The formulas with their sources are in docs/metrics.md."""

GROUPS = {
    "At a glance": ("bytes_per_delivery", "deliveries", "missing", "late", "latency_p50",
                    "latency_p99"),
    "Delivery": ("messages", "reliability", "worst_reliability", "atomicity", "on_time"),
    "Latency": ("latency_max", "t99"),
    "Redundancy and control": ("rmr", "rmr_last", "duplicates_per_delivery", "control_sends",
                               "control_ids", "control_bytes"),
    "Trees": ("ldh", "mean_hops", "fan_out_max", "stability", "load_gini"),
    "Overlay and repair": ("degree_mean", "proximity_ratio", "components", "repaired_after",
                           "unrepaired"),
    "Causal order": ("causal_violations",),
}  # fmt: skip
"""The figures by what they are about; the first group is the verdict."""


def figure(name: str) -> Figure:
    """The figure of this name. Raises KeyError."""
    return {one.name: one for one in FIGURES}[name]


def direction(figure: Figure, value: float | None, before: float | None) -> str:
    """`better`, `worse`, or empty if they are the same or nobody can say."""
    if value is None or before is None or value == before or figure.better is None:
        return ""
    return "better" if (value > before) == (figure.better == "more") else "worse"


def shown_change(value: float | None, before: float | None) -> str:
    """The change for people: per cent, or what it was if that was 0."""
    if value is None or before is None:
        return ""
    if value == before:
        return "same"
    return f"{(value - before) / abs(before):+.1%}".replace("%", " %") if before else "was 0"


def _time(nanoseconds: float) -> str:
    if abs(nanoseconds) < 1e6:
        return f"{nanoseconds / 1e3:.3g} µs"
    if abs(nanoseconds) < 1e9:
        return f"{nanoseconds / 1e6:.1f} ms"
    return f"{nanoseconds / 1e9:.2f} s"


def _share(value: float) -> str:
    # 99.9999 % must not look like 100 %.
    text = f"{value:.2%}"
    if value < 1 and text.startswith("100"):
        text = f"{value:.6%}" if value < 0.99999999 else "> 99.999999%"
    return text.replace("%", " %")


_SHOWN: dict[Unit, Callable[[float], str]] = {
    "share": _share,
    "ns": _time,
    "s": lambda value: f"{value:.1f} s",
    "bytes": lambda value: f"{value:,.1f} B",
    "number": lambda value: f"{value:,.3f}",
    # A mean of some runs may be less than one.
    "count": lambda value: f"{value:,.0f}" if value >= 100 or value % 1 == 0 else f"{value:.3g}",
}
