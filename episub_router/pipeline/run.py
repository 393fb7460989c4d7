"""The whole way: events of some runs to facts to answers, each table written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.answers import (
    causes,
    groups,
    load,
    messages,
    overlay,
    quality,
    recovery,
    sds,
    spread,
)
from episub_router.pipeline.facts import (
    arrivals,
    clocks,
    contacts,
    evidence,
    lives,
    logs,
    spans,
    traffic,
    traits,
)
from episub_router.pipeline.facts import spread as spreading
from episub_router.pipeline.facts.census import NOT_COUNTED, Census
from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.session import FEW_EVENTS, suited


@dataclass(frozen=True, slots=True)
class Maker:
    """A table, and how it is made of the tables before it. Where it has no row but for rows of one
    of them, that one is what it is `of`."""

    name: str
    make: Callable[[Tables, AnswerParams], DataFrame]
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A table that was written: how to get it, the seconds that it took, and whether it is
    empty."""

    table: Callable[[], DataFrame]
    seconds: float
    is_empty: bool


EVENTS_PER_FACT = 10
"""Answers are made of rows that are about so many times fewer than the events are. Ours: of seven
copies of a message each is sent and received."""

_OF_EVENTS: tuple[Maker, ...] = (
    Maker("clocks", lambda t, p: clocks.clocks(clocks.exchanges(t("events"), t.census.rpcs))),
    Maker("starts", lambda t, p: evidence.starts(t("records"), t("clocks"))),
    # Asks for no time, and so doesn't wait for the clocks.
    Maker("totals", lambda t, p: traffic.totals(t("events"))),
    Maker("contacts", lambda t, p: contacts.contacts(t("timed"), p)),
    Maker("changes", lambda t, p: lives.changes(t("timed"))),
    Maker("publishes", lambda t, p: spreading.publishes(t("timed"))),
    Maker("deliveries", lambda t, p: spreading.deliveries(
        t("timed"), t("publishes"), t("clocks"), t("starts"), t.census.chains)),
    Maker("control", lambda t, p: traffic.control(t("timed"))),
    Maker("duplicates", lambda t, p: spreading.duplicates(
        t("timed"), t("deliveries"), t("control"))),
    Maker("losses", lambda t, p: traffic.losses(t("timed"))),
    Maker("rtts", lambda t, p: traffic.rtts(t("timed"))),
    Maker("sds", lambda t, p: logs.sds(t("timed"))),
)  # fmt: skip
"""Facts that are made of all events."""

FACTS: tuple[Maker, ...] = (
    *_OF_EVENTS,
    Maker("spans", lambda t, p: spans.spans(t("contacts"), t("changes"), p)),
    Maker("links", lambda t, p: lives.links(t("changes")), "changes"),
    Maker("activity", lambda t, p: lives.activity(t("contacts"), t("spans"))),
    Maker("subscriptions", lambda t, p: lives.subscriptions(
        t("changes"), t("links"), t("activity"), t("publishes"), t("spans"), p)),
    Maker("traits", lambda t, p: traits.traits(t("records"), t("changes"))),
    Maker("arrivals", lambda t, p: arrivals.arrivals(
        t("publishes"), t("deliveries"), t("subscriptions"), p), "publishes"),
    Maker("troubles", lambda t, p: evidence.troubles(
        t("arrivals"), t("publishes"), t("subscriptions"), p), "arrivals"),
    Maker("judged", lambda t, p: causes.judged(evidence.evidence(
        t("timed"), t("records"), t("troubles"), t("deliveries"), t("control"), t("starts"), p), p),
        "troubles"),
)  # fmt: skip

ANSWERS: tuple[Maker, ...] = (
    Maker("messages", lambda t, p: messages.messages(
        t("publishes"), t("deliveries"), messages.copies(t("duplicates")),
        messages.sent(t("totals")), t("arrivals")), "publishes"),
    Maker("spread", lambda t, p: spread.spread(t("messages"), t("arrivals"), p), "messages"),
    Maker("latency_cdf", lambda t, p: spread.latency_cdf(t("arrivals")), "arrivals"),
    Maker("duplicate_causes", lambda t, p: spread.duplicates(t("duplicates"), p), "duplicates"),
    Maker("control_traffic", lambda t, p: load.control(
        t("control"), t("deliveries"), p), "control"),
    Maker("load", lambda t, p: load.load(t("totals"), t("deliveries"))),
    Maker("balance", lambda t, p: load.balance(t("load")), "load"),
    Maker("loss_reasons", lambda t, p: load.losses(t("losses"), p), "losses"),
    Maker("quality", lambda t, p: quality.quality(
        t("records"), t("contacts"), t("publishes"), t("deliveries"), t("clocks"),
        t("subscriptions"), t("spans"), p)),
    Maker("overlay", lambda t, p: overlay.overlay(
        t("links"), t("subscriptions"), t("rtts"), t("spans"), p), "links"),
    Maker("causes", lambda t, p: causes.causes(t("judged")), "judged"),
    Maker("faults", lambda t, p: causes.faults(t("judged")), "judged"),
    Maker("missing", lambda t, p: spread.missing(t("arrivals"), t("causes"), p), "arrivals"),
    Maker("rest", lambda t, p: causes.rest(t("arrivals"), t("faults"), p), "arrivals"),
    Maker("groups", lambda t, p: groups.groups(t("traits"), t("arrivals")), "traits"),
    Maker("recovery", lambda t, p: recovery.recovery(
        t("messages"), t("subscriptions"), t("faults"), t("recorded"))),
    Maker("sds_entries", lambda t, p: sds.entries(t("sds")), "sds"),
    Maker("sds_violations", lambda t, p: sds.violations(t("sds_entries")), "sds_entries"),
    Maker("sds_messages", lambda t, p: sds.messages(t("sds"), t("sds_entries")), "sds_entries"),
    Maker("sds_channels", lambda t, p: sds.channels(
        t("sds"), t("sds_entries"), t("sds_messages"), t("sds_violations")), "sds"),
)  # fmt: skip

ON_DEMAND: tuple[Maker, ...] = (
    Maker("rpcs", lambda t, p: traffic.rpcs(t("timed"))),
    Maker("transmissions", lambda t, p: traffic.transmissions(t("timed"))),
)
"""Facts as large as the traces themselves, that answers need sums of alone: made where they are
asked for, and not written."""


class Tables:
    """Tables by name: those of `made`, and what follows from them, made on first use."""

    def __init__(self, made: Mapping[str, DataFrame], params: AnswerParams) -> None:
        self.census: Census = NOT_COUNTED
        self._made = dict(made)
        self._expected: dict[str, Future[Made]] = {}
        self._params = params
        self._makers = {table.name: table for table in (*FACTS, *ON_DEMAND, *ANSWERS)}

    def __call__(self, name: str) -> DataFrame:
        """The table `name`: `records`, `events`, `timed`, `recorded`, or one of FACTS, ON_DEMAND
        and ANSWERS. Waits for one that is expected."""
        if name in self._expected and name not in self._made:
            self._made[name] = self._expected[name].result().table()
        if name not in self._made:
            if name == "events":
                records = self("records")
                is_event = F.col("status") == "event"
                self._made[name] = records.where(is_event).drop("status", "detail")
            elif name == "recorded":
                self._made[name] = recovery.recorded(self("publishes").sparkSession, ())
            elif name == "timed":
                self._made[name] = clocks.corrected(self("events"), self("clocks"))
            else:
                self._made[name] = self.make(name)
        return self._made[name]

    def make(self, name: str) -> DataFrame:
        """The table `name`, one of FACTS, ON_DEMAND and ANSWERS, made of those before it."""
        return self._makers[name].make(self, self._params)

    def has_none_to_be_of(self, name: str) -> bool:
        """Whether it is clear without looking that `name` has no rows. Waits for what it is `of`,
        where that is expected."""
        of = self._makers[name].of
        before = None if of is None else self._expected.get(of)
        return self.census.rows.get(name) == 0 or (before is not None and before.result().is_empty)

    def expect(self, name: str, made: Future[Made]) -> None:
        """`name` is what is being `made`."""
        self._expected[name] = made

    def replace(self, name: str, table: DataFrame) -> None:
        """From now on, `name` is `table`."""
        self._made[name] = table

    @contextmanager
    def kept(self, *names: str) -> Iterator[None]:
        """While in this context, the tables `names`, each made after those before it, are held in
        memory (or on disk), so that what follows from them doesn't make them again and again. Some
        are made at once, as in `answer`: each waits for those before it that it is made of."""
        releases: list[Callable[[], object]] = []

        def make(name: str, there: DataFrame | None) -> Made:
            started = perf_counter()
            table, release = hold(self.make(name) if there is None else there)
            releases.append(release)
            return Made(lambda: table, perf_counter() - started, is_empty=False)

        try:
            with ThreadPoolExecutor(self._params.at_once) as pool:
                try:
                    for name in names:
                        self.expect(name, pool.submit(make, name, self._made.pop(name, None)))
                    for name in names:
                        self(name)
                finally:
                    pool.shutdown(cancel_futures=True)
            yield
        finally:
            for release in releases:
                release()


def hold(table: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """`table`, in memory or on disk, and what forgets it."""
    # What goes with a worker is made again. New columns: joins with what is made of it would
    # confuse the old ones.
    cached = table.cache()
    return cached.toDF(*cached.columns), cached.unpersist


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
    recorded = recovery.recorded(lake.session, lake.faults(chosen))
    made = {"records": lake.records(chosen), "recorded": recorded}
    events = sum(entry.events for entry in lake.manifest() if entry.run in chosen)
    making = _Making(lake, Tables(made, params), params.at_once, chosen, begun)
    with suited(lake.session, events):
        making.count()
        yield from making.all_of((SILVER, _OF_EVENTS))
    # What follows is made of less.
    facts = events // EVENTS_PER_FACT
    with suited(lake.session, facts if facts < FEW_EVENTS else events):
        yield from making.all_of((SILVER, FACTS[len(_OF_EVENTS) :]), (GOLD, ANSWERS))


class _Making:
    """The tables of `runs`, each in a thread's turn."""

    def __init__(
        self,
        lake: Lake,
        tables: Tables,
        at_once: int,
        runs: Sequence[str],
        begun: Callable[[str], None],
    ) -> None:
        self._lake, self._tables, self._at_once = lake, tables, at_once
        self._runs, self._begun = runs, begun

    def count(self) -> None:
        """Look how many events there are of what."""
        self._tables.census = Census.of(self._tables("events"))

    def all_of(self, *layers: tuple[str, Sequence[Maker]]) -> Iterator[tuple[str, float]]:
        """Make all tables of some layers. The driver plans small ones for longer than they take,
        so it makes some at once: begun in order, and each waits for earlier ones only, so that one
        always goes on. Yields the names of those that are written, and the seconds that they
        took."""
        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                under_way = []
                for layer, makers in layers:
                    for maker in makers:
                        future = pool.submit(self._make, layer, maker)
                        self._tables.expect(maker.name, future)
                        under_way.append((maker, future))
                for maker, future in under_way:
                    yield maker.name, future.result().seconds
            finally:
                pool.shutdown(cancel_futures=True)

    def _make(self, layer: str, table: Maker) -> Made:
        is_empty = self._tables.has_none_to_be_of(table.name)
        made = self._tables.make(table.name)
        started = perf_counter()
        self._begun(table.name)
        self._lake.put(layer, table.name, made, self._runs, is_empty)
        is_empty = not self._lake.has(layer, table.name, self._runs)
        # What follows reads what was written instead of making it again.
        written = partial(self._lake.read, layer, table.name, self._runs)
        return Made(written, perf_counter() - started, is_empty)
