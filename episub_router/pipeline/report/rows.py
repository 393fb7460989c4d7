"""From the rows of a lake's answers to a report's runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from episub_router.pipeline.params import SECOND
from episub_router.pipeline.report.drawing import draw
from episub_router.pipeline.report.model import Drawing, Row, Run, TopicReport
from episub_router.pipeline.report.params import ReportParams
from episub_router.pipeline.report.queries import ABOUT, MESSAGE

OVERLAYS = ("active", "eager", "stream")
"""Kinds of links that an overlay can be made of, the best known first."""

_NO_TOPIC = "(no topic)"


_DEEP = 1.25
_SLOW = 1.5
"""Times the mean over a run's peers, from which on a depth or a latency says something. Chosen."""


class ReportRows:
    """Rows of all tables that the report on a run is made of, by table.

    `chosen` has the topics that are shown; None is what has no topic.
    """

    def __init__(
        self,
        tables: Mapping[str, list[Row]],
        chosen: Sequence[str | None],
        params: ReportParams,
    ) -> None:
        self._tables, self._chosen, self._params = tables, chosen, params

    def rows(self, name: str, **wanted: Any) -> list[Row]:
        return [
            row
            for row in self._tables.get(name, ())
            if all(row[key] == value for key, value in wanted.items())
        ]

    def run(self, name: str) -> Run:
        (quality,) = self.rows("quality")
        spreads = by_messages(self.rows("spread"))
        chosen = [row for row in spreads if row["topic"] in self._chosen]
        load = _sorted(self.rows("load"), "share")
        faults = _sorted(self.rows("faults"), "begin", "peers")
        places = {"after": "begin", "until": "end", "calm_after": "calm"}
        return Run(
            name=name,
            about=_about(self.rows("headers")),
            quality=quality,
            control=_sorted(self.rows("control_traffic"), "kind"),
            losses=self.rows("losses"),
            load=[(row["share"], row["sent_messages"], row["sent_bytes"]) for row in load],
            balance={row["figure"]: row for row in self.rows("balance")},
            clocks=_sorted(self.rows("clocks"), "peer"),
            channels=_sorted(self.rows("sds_channels"), "channel"),
            topics=[self._topic(name, row, quality) for row in chosen],
            topics_left_out=len(spreads) - len(chosen),
            faults=[fault | {at: _since(fault[of], quality) for at, of in places.items()}
                    for fault in faults],
            groups=_sorted(self.rows("groups"), "trait", "value"),
            worst=[peer | {"why": reason(peer)} for peer in self.rows("worst")],
        )  # fmt: skip

    def _topic(self, run: str, spread: Row, quality: Row) -> TopicReport:
        topic = spread["topic"]
        shown = _NO_TOPIC if topic is None else topic

        def of_topic(name: str, *order: str) -> list[Row]:
            return _sorted(self.rows(name, topic=topic), *order)

        def timed(row: Row, time: str, *names: str) -> Row:
            return {name: row[name] for name in names} | {"after": _since(row[time], quality)}

        seen = [look for look in _sorted(self.rows("overlay"), "kind", "time")
                if look["topic"] in (topic, None)]  # fmt: skip
        of_look = ("kind", "proximity_ratio", "degree_mean", "components", "symmetry")
        return TopicReport(
            label=f"{run} · {shown}",
            run=run,
            topic=shown,
            figures=self._figures(spread, seen),
            latencies=[(row["millisecond"] + 1, row["share"])
                       for row in of_topic("latency_cdf", "millisecond")],
            messages=[timed(row, "published", "index", *MESSAGE[2:])
                      for row in of_topic("messages", "index")],
            degrees={look["kind"]: look["degrees"] for look in seen},
            overlay=[timed(look, "time", *of_look) for look in seen],
            faults=[timed(fault, "time", *fault) for fault in of_topic("recovery", "time")],
            rest=next(iter(of_topic("rest")), {}),
            causes={r["cause"]: (r["late"], r["lost"]) for r in of_topic("caused")},
            missing={r["reason"]: r["count"] for r in of_topic("missing")},
            duplicates={r["cause"]: r["count"] for r in of_topic("duplicate_causes")},
            drawing=self._drawing(topic),
        )  # fmt: skip

    def _figures(self, spread: Row, looks: Sequence[Row]) -> dict[str, float | None]:
        figures = {
            name: spread[name]
            for name in (
                "messages", "deliveries", "reliability", "worst_reliability", "atomicity",
                "latency_p50", "latency_p99", "latency_max", "t99", "rmr", "rmr_last",
                "duplicates_per_delivery",
                "ldh", "mean_hops", "fan_out_max", "stability",
            )
        }  # fmt: skip
        topic = spread["topic"]
        figures["missing"] = spread["live"] - spread["delivered"]
        expected = spread["live"] - (spread["delivered"] - spread["deliveries"])
        # Whether those came in time that have no latency, nobody knows.
        expected -= spread["unknown_latencies"]
        figures["late"] = sum(row["late"] + row["lost"] for row in self.rows("caused", topic=topic))
        figures["on_time"] = 1 - figures["late"] / expected if expected else None
        figures["bytes_per_delivery"] = self._bytes_per_delivery()
        control = self.rows("control_traffic")
        for name in ("sends", "ids", "bytes"):
            shares = [row[f"{name}_per_delivery"] for row in control]
            known = [value for value in shares if value is not None]
            figures[f"control_{name}"] = math.fsum(known) if known else None
        sent = [row for row in self.rows("balance") if row["figure"] == "sent_messages"]
        figures["load_gini"] = sent[0]["gini"] if sent and sent[0]["mean"] else None
        last = _last_look(looks)
        for name in ("degree_mean", "proximity_ratio", "components"):
            figures[name] = last[name] if last else None
        mended = [row["repaired_after"] for row in self.rows("mended", topic=topic)]
        repaired = [value for value in mended if value is not None]
        figures["repaired_after"] = max(repaired, default=None)
        figures["unrepaired"] = len(mended) - len(repaired) if mended else None
        channels = self.rows("sds_channels")
        figures["causal_violations"] = (
            sum(row["violations"] for row in channels) if channels else None
        )
        return figures

    def _bytes_per_delivery(self) -> float | None:
        """All bytes sent in the run for each of its deliveries; None where a trace lacks sizes."""
        (quality,) = self.rows("quality")
        figures = {row["figure"]: row for row in self.rows("balance")}
        sent, sized = figures.get("sent_rpcs"), figures.get("sent_bytes")
        if not (sent and sized and quality["served"]) or sized["peers"] != sent["peers"]:
            return None
        return float(sized["mean"] * sized["peers"] / quality["served"])

    def _drawing(self, topic: str | None) -> Drawing | None:
        tree = self.rows("tree", topic=topic)
        last = self.rows("last", topic=topic)
        if not tree or not last:
            return None
        links = self.rows("links", topic=topic)
        kinds = [kind for kind in OVERLAYS if any(link["kind"] == kind for link in links)]
        kind = kinds[0] if kinds else None
        return draw(
            last[0]["message"],
            last[0]["source"],
            {row["peer"]: row["parent"] for row in tree},
            [(link["a"], link["b"]) for link in links if link["kind"] == kind],
            kind,
            self._params.drawn,
            last[0]["receivers"],
        )


def _since(time: int | None, quality: Row) -> float | None:
    return None if time is None else (time - quality["begin"]) / SECOND


def by_messages(spreads: Sequence[Row]) -> list[Row]:
    """Rows of topics, those with the most messages first."""
    return sorted(spreads, key=lambda row: (-row["messages"], row["topic"] or ""))


def _about(headers: Sequence[Row]) -> Row:
    """What headers say, in one: where they differ, everything."""
    if not headers:
        return {}
    described = {
        name: ", ".join(sorted({row[name] for row in headers if row[name] is not None}))
        for name in ABOUT
    }
    simulated = any(row["simulated"] for row in headers)
    return {name: value for name, value in described.items() if value} | {"simulated": simulated}


def _last_look(looks: Sequence[Row]) -> Row | None:
    for kind in OVERLAYS:
        of_kind = [look for look in looks if look["kind"] == kind]
        if of_kind:
            return of_kind[-1]
    return None


def _sorted(rows: Sequence[Row], *keys: str) -> list[Row]:
    def order(row: Row) -> list[tuple[bool, Any]]:
        return [(row[key] is None, row[key]) for key in keys]

    return sorted(rows, key=order)


def reason(row: Row) -> str:
    """Why a peer, a row of the table `peers` with the means of all, fared as it did."""
    said = [row["causes"]] if row["causes"] else []
    if _is_beyond(row, "hops", _DEEP):
        said.append(f"deep in the trees, {row['hops']:.1f} hops where the mean is "
                    f"{row['usual_hops']:.1f}")  # fmt: skip
    elif not said and _is_beyond(row, "latency", _SLOW):
        said.append("no deeper than others: it or a link on the way to it is slow")
    return "; ".join(said) or "nothing lacks"


def _is_beyond(row: Row, name: str, times: float) -> bool:
    value, usual = row[name], row[f"usual_{name}"]
    return value is not None and usual is not None and value > times * max(usual, 0)
