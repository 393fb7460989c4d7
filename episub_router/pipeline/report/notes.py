"""How far what a report says is to be trusted, in sentences."""

from collections.abc import Sequence

from episub_router.pipeline.report.model import Row, Run

_MS = 1e6


def notes(runs: Sequence[Run]) -> list[str]:
    """The notes on `runs`: of each what was read, and whatever limits its figures."""
    return [f"{run.name}: {note}" for run in runs for note in _of_run(run)]


def _of_run(run: Run) -> list[str]:
    row = run.quality
    if row.get("streamed"):
        return ["A stream answered it: `episub pipeline answers` makes quantiles and causes."]
    made = [
        f"{row['events']:,} events of {row['peers']:,} peers over "
        f"{(row['end'] - row['begin']) / 1e9:,.1f} s."
    ]
    if run.about.get("simulated"):
        made.append("Simulated: sizes are modelled, and there is one clock.")
    made += [text.format(row[name]) for name, text in _COUNTED if row.get(name)]
    if row.get("subscriptions_inferred"):
        made.append("Nobody is seen to join some topic: all peers of the run are expected there.")
    made += _on_clocks(row)
    if run.topics_left_out:
        made.append(f"{run.topics_left_out:,} topics with fewer messages are not shown.")
    if not any(row.get(name) for name, _ in _COUNTED):
        made.append("Nothing was quarantined, dropped, late or negative.")
    return made


_COUNTED = (
    ("quarantined", "{:,} records could not be read, and are quarantined."),
    ("late", "{:,} events came behind a stream's watermark: they count here, not in its tables."),
    ("unknown_events", "{:,} events are of a kind that this version doesn't know."),
    ("outliers", "{:,} events have times that can't be, and don't count for the run's length."),
    ("untraced_peers",
     "{:,} peers have no trace of their own: what they sent is missing in RMR, control and load."),
    ("dropped_by_tracer", "{:,} events were dropped by the tracers: figures are too low."),
    ("failed_by_tracer", "{:,} events could not be written by the tracers."),
    ("inferred_publishes",
     "{:,} messages whose publishing isn't traced: their latencies are too short by one delivery."),
    ("negative_latencies", "{:,} latencies are negative: clocks still disagree."),
    ("clocks_set",
     "{:,} clocks were set during the run: latencies from and to these peers are left out."),
    ("unknown_latencies", "{:,} deliveries have no latency for that reason."),
    ("negative_before_correction", "{:,} latencies were negative before clocks were corrected."),
    ("repeated_deliveries", "{:,} deliveries were repeated to the application."),
    ("without_depth", "{:,} deliveries have no known depth."),
    ("cut_short",
     "{:,} peers' traces end although others heard of them later: they are cut short."),
    ("silent_peers", "{:,} peers fell silent, and count as gone from then on."),
)  # fmt: skip


def _on_clocks(row: Row) -> list[str]:
    if not row["clocks"]:
        return ["No RPC was traced at both ends: clocks are taken for right."]
    made = [
        f"Clocks of {row['clocks']:,} peers were compared, {row['clocks_corrected']:,} corrected, "
        f"{row['clocks_unknown']:,} could not be bounded."
    ]
    if row["largest_offset"] is not None:
        uncertainty = row["largest_uncertainty"]
        within = "" if uncertainty is None else f", uncertain by up to {uncertainty / _MS:.3f} ms"
        made.append(f"The largest offset is {row['largest_offset'] / _MS:.3f} ms{within}.")
    return made
