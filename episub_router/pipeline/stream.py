"""The same tables from files as they come, batch by batch, on either engine.

Nodes rotate finished files into a directory. Each batch decodes the new ones into a batch of bronze
and makes the answers of the windows anew that are still open. The manifest tells which files have
been taken: a batch that a crash left half done isn't in it, and one that is there and has no
answers yet is answered first.

The watermark follows the latest event seen, `lateness` behind: at least what nodes rotate their
files after, since a node without any file so far may have been there all the time. Events from
before it are kept in bronze with `late` set, counted in the manifest, and left out of what is
answered here; `run.answer` has them.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from statistics import median_low
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline import state
from episub_router.pipeline.bronze.tasks import TraceFileInfo, identify
from episub_router.pipeline.facts import spread
from episub_router.pipeline.ingest import listed, take
from episub_router.pipeline.lake import Entry, Lake, batch_name, stream_prefix
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.run import Tables

_HELD = (
    "clocks", "changes", "contacts", "publishes", "deliveries", "spans", "links", "activity",
    "subscriptions", "arrivals", "messages",
)  # fmt: skip
"""What several tables of a batch are made of, written so that none of it is planned or made anew
for each."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch did."""

    number: int
    files: tuple[Entry, ...]
    watermark: int | None
    """ns; events from before it are late. None in the first batch."""


def stream(
    lake: Lake,
    directory: str,
    run: str,
    params: AnswerParams,
    *,
    interval: float = 1.0,
    once: bool = False,
    files_per_batch: int = 1_000,
    on_batch: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Take every file that comes into `directory` into run `run`: for ever or, with `once`, until
    all are taken that are there.

    `interval` is seconds between looks at the directory. `on_batch` is called with each batch's
    progress. Only one stream may write a run.
    """
    entries = [entry for entry in lake.manifest() if entry.run == run]
    numbers = [entry.batch.removeprefix(stream_prefix(run)) for entry in entries]
    number = max((int(text) for text in numbers if text.isdecimal()), default=-1)
    seen = {entry.file for entry in entries}
    if lake.live_progress(run).get("batch", -1) < number:
        last = [entry for entry in entries if entry.batch == _batch(run, number)]
        before = [entry for entry in entries if entry not in last]
        progress = Progress(number, (*last,), _watermark(before, params))
        on_batch(_answer(lake, run, params, progress, entries))
    while True:
        began = time.monotonic()
        there = [file for file in _listed(directory) if file.name not in seen]
        some = sorted(there, key=attrgetter("modified", "path"))[:files_per_batch]
        seen.update(file.name for file in some)
        if fresh := _fresh(lake, some, {entry.digest for entry in entries}, run):
            number, watermark = number + 1, _watermark(entries, params)
            taken = take(lake.session, lake, _batch(run, number), fresh, watermark)
            entries += taken
            progress = Progress(number, (*taken,), watermark)
            on_batch(_answer(lake, run, params, progress, entries))
        if once and not there:
            return
        if not once:
            time.sleep(max(0.0, began + interval - time.monotonic()))


def _batch(run: str, number: int) -> str:
    return stream_prefix(run) + batch_name(number)


def _listed(directory: str) -> list[TraceFileInfo]:
    try:
        return [*listed(directory)]
    except FileNotFoundError:
        return []


def _watermark(before: Sequence[Entry], params: AnswerParams) -> int | None:
    """The watermark after the files `before`."""
    latest = _last_event(before, params)
    return None if latest is None else latest - int(params.lateness * SECOND)


def _last_event(files: Sequence[Entry], params: AnswerParams) -> int | None:
    """When the last event in `files` was (ns); an impossible time in one of them isn't."""
    latest = [entry.latest for entry in files if entry.latest is not None]
    if not latest:
        return None
    bound = median_low(latest) + int(params.longest * SECOND)
    return max(time for time in latest if time <= bound)


def _fresh(
    lake: Lake, files: Sequence[TraceFileInfo], known: Collection[str], run: str
) -> list[TraceFileInfo]:
    """Those of `files` whose digest isn't `known`, and of several with one content the first."""
    found = identify(lake.session, sorted(files, key=attrgetter("path")))
    chosen = {file.digest: file for file in reversed(found) if file.digest not in known}
    return [replace(file, run=run) for file in chosen.values()]


def _answer(
    lake: Lake, run: str, params: AnswerParams, progress: Progress, entries: Sequence[Entry]
) -> Progress:
    """Make the answers that may still change: those of windows that end less than `patience`
    before the watermark, or after it. What was open before and isn't any more is closed as it is.
    `entries` are all of the run: a manifest of many files isn't read again for each batch.
    Where nothing is kept of those before, as in a stream that an earlier build began, all are open.
    """
    number = progress.number
    recent: list[dict[str, Any]] = lake.live_progress(run).get("recent", [])
    base = recent[-1]["batch"] if recent else None
    watermark = progress.watermark if recent else None
    horizon = None if watermark is None else state.Horizon.of(watermark, params)
    since = "" if base is None else _batch(run, base)
    taken = [entry for entry in entries if entry.batch > since]
    share = state.one_in(sum(entry.events for entry in taken))
    recent.append({"batch": number, "watermark": progress.watermark, "one_in": share})
    # What a batch had was over when the next one began.
    lateness = int(params.lateness * SECOND)
    while horizon and len(recent) > 1 and (recent[1]["watermark"] or 0) + lateness < horizon.kept:
        del recent[0]
    made = state.reduced(lake.events([run], {entry.batch for entry in taken}), share)
    new = lake.write_live("recent", run, number, made, "role")
    rows = lake.read_live("recent", run, *(batch["batch"] for batch in recent))
    if base is not None:
        new = lake.read_live("state", run, base).unionByName(new)
    lasting = lake.write_live("state", run, number, state.merged(new, horizon), "role")
    most = max(batch["one_in"] for batch in recent)

    def publishes(events: DataFrame) -> DataFrame:
        """Of messages that aren't closed."""
        found = spread.publishes(events)
        if horizon is None:
            return found
        kept = found.where(F.col("time") >= horizon.kept)
        return kept.join(state.forgotten(lasting, horizon), ["run", "message"], "anti")

    tables = {
        "traced": state.events_of(rows, lasting, horizon),
        "exchanges": state.exchanges_of(rows, most),
        # Headers aren't kept.
        "starts": lake.session.createDataFrame([], "run string, peer string, time long"),
        "copies": state.counts_of(rows, "copies", "duplicates"),
        "sent": state.counts_of(rows, "sent", "sent"),
    }
    answers = Tables(tables, params, publishes=publishes)
    for _ in answers.kept(
        _HELD, lambda name, table: lake.write_live(f"held-{name}", run, number, table)
    ):
        pass
    of_windows = answers("spread").where(F.col("window").isNotNull())
    batches = base, number
    _write(lake, "messages", run, batches, answers("messages"), horizon, "published")
    _write(lake, "spread", run, batches, of_windows, horizon, "window")
    lake.put_live_progress(run, {"batch": number, "recent": recent})
    for name in _HELD:
        lake.forget_live(f"held-{name}", run, number + 1)
    lake.forget_live("recent", run, recent[0]["batch"])
    lake.forget_live("state", run, number if base is None else base)
    for name in ("messages", "spread"):
        if base is None:
            lake.forget_live(name, run, number)
        else:
            lake.forget_live(name, run, base, "/closed=false")
    return progress


def _write(
    lake: Lake,
    name: str,
    run: str,
    batches: tuple[int | None, int],
    table: DataFrame,
    horizon: state.Horizon | None,
    time: str,
) -> None:
    """Write what is open of `table`, and what was open in the batch before and is closed now."""
    base, number = batches
    if horizon is not None:
        table = table.where(F.col(time) >= horizon.first)
    table = table.withColumn("closed", F.lit(False))
    if base is not None and horizon is not None:
        before = lake.read_live(name, run, base).where(~F.col("closed"))
        now_closed = before.where(F.col(time) < horizon.first).withColumn("closed", F.lit(True))
        table = table.unionByName(now_closed)
    lake.write_live(name, run, number, table, "closed")


def answered_until(lake: Lake, run: str) -> int | None:
    """When the last event was that the stream's answers of `run` have (ns)."""
    last = _batch(run, lake.live_progress(run).get("batch", -1))
    taken = [entry for entry in lake.manifest() if entry.run == run and entry.batch <= last]
    return _last_event(taken, AnswerParams())


def live(lake: Lake, name: str, runs: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the table `messages` or `spread` as streams have it now: of windows that are
    closed, which are final, and of those that are open. None before the first batch. Messages are
    numbered (`index`) from the stream's begin."""
    done = {run: lake.live_progress(run).get("batch") for run in runs}
    rows = [
        row
        for run, at in done.items() if at is not None
        for row in lake.look_live(name, run, at).to_pylist()
    ]  # fmt: skip
    if name == "messages":
        rows.sort(key=lambda row: (row["run"], row["topic"], row["published"], row["message"]))
        for _, of_topic in groupby(rows, key=itemgetter("run", "topic")):
            for index, row in enumerate(of_topic):
                row["index"] = index
    return rows
