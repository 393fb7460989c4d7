"""The whole way: events of some runs to facts to answers, each table written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter

from pyspark.sql import DataFrame

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
from episub_router.pipeline.engine import hold
from episub_router.pipeline.facts import (
    arrivals,
    clocks,
    contacts,
    evidence,
    lives,
    sanity,
    spans,
    traffic,
    traits,
)
from episub_router.pipeline.facts import spread as spreading
from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.params import AnswerParams

FACTS: dict[str, Make] = {
    "clocks": lambda t, p: clocks.clocks(clocks.exchanges(t("events"))),
    "starts": lambda t, p: evidence.starts(t("records"), t("clocks")),
    "totals": lambda t, p: traffic.totals(t("events")),
    "contacts": lambda t, p: contacts.contacts(t("timed"), p),
    "changes": lambda t, p: lives.changes(t("timed")),
    "publishes": lambda t, p: spreading.publishes(t("timed")),
    "deliveries": lambda t, p: spreading.deliveries(
        t("timed"), t("publishes"), t("clocks"), t("starts")),
    "control": lambda t, p: traffic.control(t("timed")),
    "duplicates": lambda t, p: spreading.duplicates(t("timed"), t("deliveries"), t("control")),
    "losses": lambda t, p: traffic.losses(t("timed")),
    "rtts": lambda t, p: traffic.rtts(t("timed")),
    "sds": lambda t, p: sds.happened(t("timed")),
    "spans": lambda t, p: spans.spans(t("contacts"), t("changes"), p),
    "links": lambda t, p: lives.links(t("changes")),
    "activity": lambda t, p: lives.activity(t("contacts"), t("spans")),
    "subscriptions": lambda t, p: lives.subscriptions(
        t("changes"), t("links"), t("activity"), t("publishes"), t("spans"), p),
    "traits": lambda t, p: traits.traits(t("records"), t("changes")),
    "arrivals": lambda t, p: arrivals.arrivals(
        t("publishes"), t("deliveries"), t("subscriptions"), p),
    "troubles": lambda t, p: evidence.troubles(
        t("arrivals"), t("publishes"), t("subscriptions"), t("deliveries"), p),
    "judged": lambda t, p: causes.judged(t("troubles"), evidence.evidence(
        t("timed"), t("records"), t("contacts"), t("spans"), t("troubles"), t("deliveries"),
        t("control"), t("starts"), p), p),
}  # fmt: skip
"""Each table, and how it is made of those before it."""

ANSWERS: dict[str, Make] = {
    "messages": lambda t, p: messages.messages(
        t("publishes"), t("deliveries"), messages.copies(t("duplicates")),
        messages.sent(t("totals")), t("arrivals")),
    "spread": lambda t, p: spread.spread(t("messages"), t("arrivals"), p),
    "latency_cdf": lambda t, p: spread.latency_cdf(t("arrivals")),
    "duplicate_causes": lambda t, p: spread.duplicates(t("duplicates"), p),
    "control_traffic": lambda t, p: load.control(t("control"), t("deliveries"), p),
    "load": lambda t, p: load.load(t("totals"), t("deliveries")),
    "balance": lambda t, p: load.balance(t("load")),
    "loss_reasons": lambda t, p: load.losses(t("losses"), p),
    "quality": lambda t, p: quality.quality(
        t("records"), t("contacts"), t("publishes"), t("deliveries"), t("clocks"),
        t("subscriptions"), t("spans"), t("activity"), p),
    "overlay": lambda t, p: overlay.overlay(
        t("links"), t("subscriptions"), t("rtts"), t("spans"), p),
    "causes": lambda t, p: causes.causes(t("judged")),
    "faults": lambda t, p: causes.faults(t("judged")),
    "missing": lambda t, p: spread.missing(t("arrivals"), t("causes"), p),
    "groups": lambda t, p: groups.groups(t("traits"), t("arrivals")),
    "peers": lambda t, p: groups.peers(t("arrivals"), t("causes")),
    "recovery": lambda t, p: recovery.recovery(
        t("messages"), t("subscriptions"), t("faults"), t.recorded),
    "rest": lambda t, p: causes.rest(t("arrivals"), t("faults"), t("causes"), p),
    "sds_entries": lambda t, p: sds.entries(t("sds")),
    "sds_violations": lambda t, p: sds.violations(t("sds_entries")),
    "sds_messages": lambda t, p: sds.messages(t("sds"), t("sds_entries")),
    "sds_channels": lambda t, p: sds.channels(
        t("sds"), t("sds_entries"), t("sds_messages"), t("sds_violations")),
}  # fmt: skip

ON_DEMAND: dict[str, Make] = {
    "rpcs": lambda t, p: traffic.rpcs(t("timed")),
    "transmissions": lambda t, p: traffic.transmissions(t("timed")),
}
"""Facts as large as the traces themselves, that answers need sums of alone: made where they are
asked for, and not written."""


class Tables:
    """Tables by name: those of `made`, and what follows from them, made on first use."""

    def __init__(
        self,
        made: Mapping[str, DataFrame],
        params: AnswerParams,
        recorded: Sequence[tuple[str, int, str, int]] = (),
    ) -> None:
        self._made = dict(made)
        self.recorded: Sequence[tuple[str, int, str, int]] = recorded
        self._under_way: dict[str, Future[tuple[DataFrame, float]]] = {}
        self._params = params

    def __call__(self, name: str) -> DataFrame:
        """The table `name`: `records`, `events`, `timed`, or one of FACTS, ON_DEMAND and ANSWERS.
        Waits for one that is under way."""
        if name not in self._made:
            if name in self._under_way:
                self._made[name], _ = self._under_way[name].result()
            else:
                self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> DataFrame:
        if name == "events":
            return self("records").where("status = 'event'").drop("status", "detail")
        if name == "timed":
            return clocks.corrected(self("events"), self("clocks"))
        return (FACTS | ON_DEMAND | ANSWERS)[name](self, self._params)

    def replace(self, name: str, table: DataFrame) -> None:
        """From now on, `name` is `table`."""
        self._made[name] = table

    def kept(
        self, names: Iterable[str], keep: Callable[[str, DataFrame], DataFrame]
    ) -> Iterator[tuple[str, float]]:
        """Have `keep` keep each of `names` somewhere, so that what follows from it doesn't make it
        again. Some at once: begun in order, and each waits for earlier ones only, so that one
        always goes on. Yields the names, and the seconds that keeping each took."""

        def one(name: str, there: DataFrame | None) -> tuple[DataFrame, float]:
            table = self._make(name) if there is None else there
            started = perf_counter()
            return keep(name, table), perf_counter() - started

        with ThreadPoolExecutor(self._params.at_once) as pool:
            try:
                begun = {}
                for name in names:
                    there = self._made.pop(name, None)
                    begun[name] = self._under_way[name] = pool.submit(one, name, there)
                for name, future in begun.items():
                    yield name, future.result()[1]
            finally:
                pool.shutdown(cancel_futures=True)

    @contextmanager
    def cached(self, *names: str) -> Iterator[None]:
        """While in this context, the tables `names` are held in memory, or on disk."""
        releases: list[Callable[[], object]] = []

        def keep(name: str, table: DataFrame) -> DataFrame:
            held, release = hold(table)
            releases.append(release)
            return held

        try:
            for _ in self.kept(names, keep):
                pass
            yield
        finally:
            for release in releases:
                release()


Make = Callable[[Tables, AnswerParams], DataFrame]


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
    entries = [entry for entry in lake.manifest() if entry.run in chosen]
    suspects = sorted({entry.run for entry in entries if entry.quarantined})
    read = lake.records(chosen)
    records = sanity.sane(read, sanity.damaged(read, suspects))
    tables = Tables({"records": records}, params, lake.faults(chosen))

    def write(name: str, table: DataFrame) -> DataFrame:
        begun(name)
        # What follows reads what was written instead of making it again.
        return lake.write(SILVER if name in FACTS else GOLD, name, table, chosen)

    yield from tables.kept((*FACTS, *ANSWERS), write)
