"""How long the network took to mend after a fault: deliveries, and their latency."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial, reduce
from statistics import median

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.params import SECOND
from episub_router.pipeline.sql import schema_of
from episub_router.sim.metrics.dissemination import time_to_repair

RECOVERY = schema_of(
    "run topic string time nodes long ending string reliability_before reliability_worst "
    "repaired_after rmr_before rmr_restored_after latency_before double latency_worst long "
    "latency_restored_after restored_after double"
)
"""`time` and latencies are ns, what something took is s; `nodes` are those that were gone at that
time, or that the fault took; `ending` is how they went, or what kind of fault it was."""

RECORDED = schema_of("run string time long ending string nodes long")
"""The faults of a run by its own record."""

TOGETHER = SECOND
"""Nodes that are gone within this time of each other are gone together."""

_ENOUGH = 0.999
_CLOSE = 0.05
_AS_FAST = 1.5
"""A message is as fast as those before a fault if its p99 is at most this many times their median.
Chosen: twice what p99 varies by between messages of a calm run."""


def recovery(
    messages: DataFrame,
    subscriptions: DataFrame,
    faults: DataFrame,
    recorded: Sequence[tuple[str, int, str, int]],
) -> DataFrame:
    """The table `recovery`: one row per fault and topic. `recorded` (`RECORDED`) has those that a
    run's own record tells of. In runs without, a fault is one of `faults`, or a time at which nodes
    crashed or fell silent."""
    topics = messages.select("run", "topic").distinct()
    gone = subscriptions.where("ending IN ('crash', 'silent')").selectExpr(
        "run", "topic", "until AS time", "ending"
    )
    found = faults.join(topics, "run").selectExpr(
        "run", "topic", "begin AS time", "cause AS ending", "count AS nodes",
        "coalesce(calm, 0) AS calm",
    )  # fmt: skip
    # Nodes that crashed say so themselves.
    went = gone.select("run").distinct().withColumn("went", F.lit(True))
    found = found.join(went, "run", "left").where("ending <> 'down' OR went IS NULL").drop("went")
    spread = messages.selectExpr(
        "run", "topic", "published AS time", "reliability", "rmr", "latency_p99"
    )
    rows = [gone, found]
    if recorded:
        named = F.col("run").isin(sorted({run for run, *_ in recorded}))
        known = messages.sparkSession.createDataFrame(recorded, RECORDED).join(topics, "run")
        rows = [known, *(table.where(~named) for table in rows)]
    of_all = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), [*rows, spread])
    return grouped(of_all, ["run", "topic"], mend, RECOVERY)


def mend(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `RECOVERY` for one run and topic; the rule is the simulator's
    (`dissemination.time_to_repair`)."""
    gone, spread = rows[rows["ending"].notna()], rows[rows["ending"].isna()]
    if not len(gone):
        return pd.DataFrame(columns=RECOVERY.names)
    spread = spread.sort_values("time")
    published = [time / SECOND for time in spread["time"]]
    reliability, rmr = spread["reliability"].tolist(), spread["rmr"].tolist()
    latency = [None if pd.isna(value) else int(value) for value in spread["latency_p99"]]
    faults = _faults(gone)
    made = []
    for number, (time, nodes, ending, calm) in enumerate(faults):
        at = time / SECOND
        until = faults[number + 1][0] / SECOND if number + 1 < len(faults) else float("inf")
        seen = bisect_left(published, until)
        times = published[:seen]
        earlier = bisect_left(times, at)
        before = _mean(reliability[:earlier])
        target = _ENOUGH if before is None else min(_ENOUGH, before)
        repaired = time_to_repair(at, times, reliability[:seen], target)
        if calm is not None:
            # What was late counts, too.
            repaired = (calm - time) / SECOND if calm else None
        rmr_before = _mean(rmr[:earlier])
        calmed = [rmr_before is not None and value <= rmr_before + _CLOSE for value in rmr[:seen]]
        known = [value for value in latency[:earlier] if value is not None]
        usual = median(known) if known else None
        fast = [usual is not None and value is not None and value <= _AS_FAST * usual
                for value in latency[:seen]]  # fmt: skip
        as_fast = time_to_repair(at, times, fast, 1.0)
        both = repaired is not None and as_fast is not None
        made.append(
            (
                gone["run"].iloc[0], gone["topic"].iloc[0], time, nodes, ending, before,
                min(reliability[earlier:seen], default=None), repaired, rmr_before,
                time_to_repair(at, times, calmed, 1.0), usual,
                max((value for value in latency[earlier:seen] if value is not None), default=None),
                as_fast, max(repaired or 0.0, as_fast or 0.0) if both else None,
            )
        )  # fmt: skip
    return pd.DataFrame(made, columns=RECOVERY.names).astype({"latency_worst": "Int64"})


def _faults(gone: pd.DataFrame) -> list[tuple[int, int, str, int | None]]:
    """(time, nodes, ending, calm) of each fault: those that say how many nodes they took as they
    are, the others together where they are close."""
    faults: list[tuple[int, int, str, int | None]] = []
    latest = 0
    for row in gone.sort_values(["time", "ending"]).to_dict("records"):
        time, nodes, ending = int(row["time"]), row["nodes"], str(row["ending"])
        calm = None if pd.isna(row["calm"]) else int(row["calm"])
        if not pd.isna(nodes):
            faults.append((time, int(nodes), ending, calm))
        elif faults and time - latest <= TOGETHER:
            faults[-1] = (faults[-1][0], faults[-1][1] + 1, *faults[-1][2:])
        else:
            faults.append((time, 1, ending, calm))
        latest = time
    return faults


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
