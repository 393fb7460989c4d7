"""The whole way: events of some runs to facts to answers, each table written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import getfullargspec
from time import perf_counter
from typing import Any

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

Make = Callable[..., DataFrame]

FACTS: dict[str, Make] = {
    "clocks": clocks.clocks,
    "totals": traffic.totals,
    "contacts": contacts.contacts,
    "changes": lives.changes,
    "publishes": spreading.publishes,
    "links": lives.links,
    "spans": spans.spans,
    "activity": lives.activity,
    "sds": sds.happened,
    "subscriptions": lives.subscriptions,
    "losses": traffic.losses,
    "rtts": traffic.rtts,
    "starts": evidence.starts,
    "traits": traits.traits,
    "deliveries": spreading.deliveries,
    "control": traffic.control,
    "arrivals": arrivals.arrivals,
    "troubles": evidence.troubles,
    "duplicates": spreading.duplicates,
    "judged": causes.judged,
}
"""What makes each table, in an order in which it can: of those tables that its arguments name.
Those that most others wait for come first, and `totals`, which waits for none, beside `clocks`."""

ANSWERS: dict[str, Make] = {
    "messages": messages.messages,
    "overlay": overlay.overlay,
    "quality": quality.quality,
    "spread": spread.spread,
    "groups": groups.groups,
    "causes": causes.causes,
    "faults": causes.faults,
    "load": load.load,
    "recovery": recovery.recovery,
    "rest": causes.rest,
    "control_traffic": load.control,
    "peers": groups.peers,
    "missing": spread.missing,
    "sds_entries": sds.entries,
    "sds_violations": sds.violations,
    "sds_messages": sds.messages,
    "sds_channels": sds.channels,
    "balance": load.balance,
    "latency_cdf": spread.latency_cdf,
    "duplicate_causes": spread.duplicates,
    "loss_reasons": load.losses,
}

ON_DEMAND: dict[str, Make] = {"rpcs": traffic.rpcs, "transmissions": traffic.transmissions}
"""Facts as large as the traces themselves, that answers need sums of alone: made where they are
asked for, and not written."""

_BETWEEN: dict[str, Make] = {
    "traced": lambda records: records.where("status = 'event'").drop("status", "detail"),
    "exchanges": clocks.exchanges,
    "events": clocks.corrected,
    "evidence": evidence.evidence,
    "copies": messages.copies,
    "sent": messages.sent,
}
"""What tables are made of, and nobody asks for."""


class Tables:
    """Tables by name: those of `made`, and what follows from them, made on first use."""

    def __init__(self, made: Mapping[str, Any], params: AnswerParams, **makers: Make) -> None:
        """Those that `makers` name are made by these."""
        self._made = {"params": params, "recorded": (), **made}
        self._makers = FACTS | ON_DEMAND | ANSWERS | _BETWEEN | makers
        self._under_way: dict[str, Future[tuple[DataFrame, float]]] = {}
        self._params = params

    def __call__(self, name: str) -> DataFrame:
        """The table `name`: `records`, or one of FACTS, ON_DEMAND and ANSWERS. Waits for one that
        is under way."""
        if name not in self._made:
            if name in self._under_way:
                self._made[name], _ = self._under_way[name].result()
            else:
                self._made[name] = self._make(name)
        found: DataFrame = self._made[name]
        return found

    def _make(self, name: str) -> DataFrame:
        make = self._makers[name]
        return make(*map(self, getfullargspec(make).args))

    def kept(
        self, names: Sequence[str], keep: Callable[[str, DataFrame], DataFrame]
    ) -> Iterator[tuple[str, float]]:
        """Have `keep` keep each of `names` somewhere, so that what follows from it doesn't make it
        again. Some at once: begun in order, and each waits for earlier ones only, so that one
        always goes on. Yields the names, and the seconds that keeping each took."""

        def one(name: str) -> tuple[DataFrame, float]:
            table = self._make(name)
            started = perf_counter()
            return keep(name, table), perf_counter() - started

        with ThreadPoolExecutor(self._params.at_once) as pool:
            try:
                for name in names:
                    self._under_way[name] = pool.submit(one, name)
                for name in names:
                    yield name, self._under_way[name].result()[1]
            finally:
                pool.shutdown(cancel_futures=True)


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
    tables = Tables({"records": records, "recorded": lake.faults(chosen)}, params)

    def write(name: str, table: DataFrame) -> DataFrame:
        begun(name)
        # What follows reads what was written instead of making it again.
        return lake.write(SILVER if name in FACTS else GOLD, name, table, chosen)

    yield from tables.kept((*FACTS, *ANSWERS), write)
