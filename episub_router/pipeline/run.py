"""The whole way: events of some runs to facts to answers, each table written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.answers import (
    cuts,
    load,
    messages,
    overlay,
    quality,
    recovery,
    sds,
    spread,
)
from episub_router.pipeline.facts import arrivals, clocks, contacts, lives, logs, spans, traffic
from episub_router.pipeline.facts import spread as spreading
from episub_router.pipeline.jobs import described
from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.session import suited

Written = tuple[DataFrame, float]
"""A table that was written, and the seconds that it took."""
Read = Callable[[str], DataFrame]
Table = tuple[str, Callable[[Read, AnswerParams], DataFrame]]
"""A table's name, and how it is made of the tables before it."""

FACTS: tuple[Table, ...] = (
    ("clocks", lambda t, p: clocks.clocks(clocks.exchanges(t("events")))),
    ("contacts", lambda t, p: contacts.contacts(t("timed"), p)),
    ("changes", lambda t, p: lives.changes(t("timed"))),
    ("spans", lambda t, p: spans.spans(t("contacts"), t("changes"), p)),
    ("publishes", lambda t, p: spreading.publishes(t("timed"))),
    ("deliveries", lambda t, p: spreading.deliveries(
        t("timed"), t("publishes"), t("clocks"))),
    ("control", lambda t, p: traffic.control(t("timed"))),
    ("duplicates", lambda t, p: spreading.duplicates(
        t("timed"), t("deliveries"), t("control"))),
    ("totals", lambda t, p: traffic.totals(t("timed"))),
    ("losses", lambda t, p: traffic.losses(t("timed"))),
    ("rtts", lambda t, p: traffic.rtts(t("timed"))),
    ("links", lambda t, p: lives.links(t("changes"))),
    ("activity", lambda t, p: lives.activity(t("contacts"), t("spans"))),
    ("subscriptions", lambda t, p: lives.subscriptions(
        t("changes"), t("links"), t("activity"), t("publishes"), t("spans"), p)),
    ("arrivals", lambda t, p: arrivals.arrivals(
        t("publishes"), t("deliveries"), t("subscriptions"), p)),
    ("sds", lambda t, p: logs.sds(t("timed"))),
)  # fmt: skip

ANSWERS: tuple[Table, ...] = (
    ("messages", lambda t, p: messages.messages(
        t("publishes"), t("deliveries"), messages.copies(t("duplicates")),
        messages.sent(t("totals")), t("arrivals"))),
    ("spread", lambda t, p: spread.spread(t("messages"), t("arrivals"), p)),
    ("latency_cdf", lambda t, p: spread.latency_cdf(t("arrivals"))),
    ("missing", lambda t, p: spread.missing(t("arrivals"), p)),
    ("duplicate_causes", lambda t, p: spread.duplicates(t("duplicates"), p)),
    ("control_traffic", lambda t, p: load.control(t("control"), t("deliveries"), p)),
    ("load", lambda t, p: load.load(t("totals"), t("deliveries"))),
    ("balance", lambda t, p: load.balance(t("load"))),
    ("loss_reasons", lambda t, p: load.losses(t("losses"), p)),
    ("quality", lambda t, p: quality.quality(
        t("records"), t("contacts"), t("publishes"), t("deliveries"), t("clocks"),
        t("subscriptions"), t("spans"))),
    ("overlay", lambda t, p: overlay.overlay(
        t("links"), t("subscriptions"), t("rtts"), t("spans"), p)),
    ("explained", lambda t, p: cuts.explained(
        t("contacts"), t("arrivals"), t("publishes"), p)),
    ("cuts", lambda t, p: cuts.cuts(
        t("contacts"), t("explained"), t("arrivals"), t("publishes"), p)),
    ("rest", lambda t, p: cuts.rest(t("arrivals"), t("explained"), p)),
    ("recovery", lambda t, p: recovery.recovery(
        t("messages"), t("subscriptions"), t("faults"))),
    ("sds_entries", lambda t, p: sds.entries(t("sds"))),
    ("sds_violations", lambda t, p: sds.violations(t("sds_entries"))),
    ("sds_messages", lambda t, p: sds.messages(t("sds"), t("sds_entries"))),
    ("sds_channels", lambda t, p: sds.channels(
        t("sds"), t("sds_entries"), t("sds_messages"), t("sds_violations"))),
)  # fmt: skip


ON_DEMAND: tuple[Table, ...] = (
    ("rpcs", lambda t, p: traffic.rpcs(t("timed"))),
    ("transmissions", lambda t, p: traffic.transmissions(t("timed"))),
)
"""Facts as large as the traces themselves, that answers need sums of alone: made where they are
asked for, and not written."""


class Tables:
    """Tables by name: those of `made`, and what follows from them, made on first use."""

    def __init__(self, made: Mapping[str, DataFrame], params: AnswerParams) -> None:
        self._made = dict(made)
        self._expected: dict[str, Future[Written]] = {}
        self._params = params
        self._makers = dict((*FACTS, *ON_DEMAND, *ANSWERS))

    def __call__(self, name: str) -> DataFrame:
        """The table `name`: `records`, `events`, `timed`, `faults`, or one of FACTS, ON_DEMAND and
        ANSWERS. Waits for one that is expected."""
        if name in self._expected:
            return self._expected[name].result()[0]
        if name not in self._made:
            if name == "events":
                records = self("records")
                is_event = F.col("status") == "event"
                self._made[name] = records.where(is_event).drop("status", "detail")
            elif name == "faults":
                spark = self("publishes").sparkSession
                self._made[name] = spark.createDataFrame([], recovery.FAULTS)
            elif name == "timed":
                self._made[name] = clocks.corrected(self("events"), self("clocks"))
            else:
                self._made[name] = self.make(name)
        return self._made[name]

    def make(self, name: str) -> DataFrame:
        """The table `name`, one of FACTS, ON_DEMAND and ANSWERS, made of those before it."""
        return self._makers[name](self, self._params)

    def expect(self, name: str, written: Future[Written]) -> None:
        """`name` is what is being `written`."""
        self._expected[name] = written

    def replace(self, name: str, table: DataFrame) -> None:
        """From now on, `name` is `table`."""
        self._made[name] = table

    @contextmanager
    def kept(self, *names: str) -> Iterator[None]:
        """While in this context, the tables `names`, each made after those before it, are held in
        memory (or on disk), so that what follows from them doesn't make them again and again."""
        tables = []
        try:
            for name in names:
                # Not persist(): each plan after that is searched for each plan that is persisted.
                held = self(name).localCheckpoint()
                tables.append(held)
                # New columns: joins with what is made of the same table would confuse the old ones.
                self.replace(name, held.toDF(*held.columns))
            yield
        finally:
            for table in tables:
                # There is no other way but to wait for a full garbage collection.
                jvm_table: Any = table._jdf
                jvm_table.queryExecution().logical().rdd().unpersist(False)


def on_demand(lake: Lake, name: str, runs: Sequence[str] | None = None) -> DataFrame:
    """The table `name`, one of ON_DEMAND, of `runs`, by default of all. Raises LakeError where a
    run isn't there, or has no facts yet."""
    made = {"records": lake.records(runs), "clocks": lake.read(SILVER, "clocks", runs)}
    return Tables(made, AnswerParams())(name)


def answer(
    lake: Lake,
    params: AnswerParams,
    runs: Sequence[str] | None = None,
    begun: Callable[[str], None] = lambda name: None,
) -> Iterator[tuple[str, float]]:
    """Make and write all tables of `runs`, by default of all; yields the name of each table and
    the seconds that it took once those were there that it is made of. `begun` is called, in another
    thread, with the name of each table that is being written. Raises LakeError where a run isn't
    there."""
    chosen = runs or lake.runs()
    faults = lake.session.createDataFrame(lake.faults(chosen), recovery.FAULTS)
    tables = Tables({"records": lake.records(chosen), "faults": faults}, params)

    def write(layer: str, name: str) -> Written:
        with described(lake.session, f"{layer} {name}"):
            table = tables.make(name)
            begun(name)
            started = perf_counter()
            # What follows reads what was written instead of making it again.
            return lake.write(layer, name, table, chosen), perf_counter() - started

    # The driver plans small tables for longer than they take, so it makes some at once. They are
    # begun in order, and each waits for earlier ones only, so that one always goes on.
    events = sum(entry.events for entry in lake.manifest() if entry.run in chosen)
    with suited(lake.session, events), ThreadPoolExecutor(params.at_once) as pool:
        try:
            under_way = []
            for layer, makers in ((SILVER, FACTS), (GOLD, ANSWERS)):
                for name, _ in makers:
                    written = pool.submit(write, layer, name)
                    tables.expect(name, written)
                    under_way.append((name, written))
            for name, written in under_way:
                yield name, written.result()[1]
        finally:
            pool.shutdown(cancel_futures=True)
