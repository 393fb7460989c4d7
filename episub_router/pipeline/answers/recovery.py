"""How long the network took to mend after nodes were gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from episub_router.pipeline.params import SECOND
from episub_router.sim.metrics.dissemination import time_to_repair

RECOVERY = StructType(
    [
        StructField("run", StringType(), False),
        StructField("topic", StringType(), True),
        StructField("time", LongType(), False),  # ns
        StructField("nodes", LongType(), False),  # gone at that time
        StructField("ending", StringType(), False),
        StructField("reliability_before", DoubleType(), True),
        StructField("reliability_worst", DoubleType(), True),
        StructField("repaired_after", DoubleType(), True),  # s
        StructField("rmr_before", DoubleType(), True),
        StructField("rmr_restored_after", DoubleType(), True),  # s
    ]
)

TOGETHER = SECOND
"""Nodes that are gone within this time of each other are gone together."""

_ENOUGH = 0.999
_CLOSE = 0.05


def recovery(messages: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """The table `recovery`: one row per time at which nodes crashed or fell silent."""
    gone = subscriptions.where(F.col("ending").isin("crash", "silent")).select(
        "run", "topic", F.col("until").alias("time"), "ending"
    )
    spread = messages.select("run", "topic", F.col("published").alias("time"), "reliability", "rmr")
    keys = ["run", "topic"]
    # New columns, since both may come from the same table.
    gone, spread = gone.toDF(*gone.columns), spread.toDF(*spread.columns)
    return gone.groupBy(*keys).cogroup(spread.groupBy(*keys)).applyInPandas(mend, RECOVERY)


def mend(gone: pd.DataFrame, spread: pd.DataFrame) -> pd.DataFrame:
    """Rows of `RECOVERY` for one run and topic; the rule is the simulator's
    (`dissemination.time_to_repair`)."""
    if not len(gone):
        return pd.DataFrame(columns=RECOVERY.names)
    spread = spread.sort_values("time")
    published = [time / SECOND for time in spread["time"]]
    reliability, rmr = spread["reliability"].tolist(), spread["rmr"].tolist()
    faults = _faults(gone)
    rows = []
    for number, (time, nodes, ending) in enumerate(faults):
        at = time / SECOND
        until = faults[number + 1][0] / SECOND if number + 1 < len(faults) else float("inf")
        seen = bisect_left(published, until)
        times, reached, redundant = published[:seen], reliability[:seen], rmr[:seen]
        earlier = bisect_left(times, at)
        before = _mean(reached[:earlier])
        rmr_before = _mean(redundant[:earlier])
        target = _ENOUGH if before is None else min(_ENOUGH, before)
        restored = None
        if rmr_before is not None:
            calm = [1.0 if value <= rmr_before + _CLOSE else 0.0 for value in redundant]
            restored = time_to_repair(at, times, calm, 1.0)
        rows.append(
            (
                gone["run"].iloc[0], gone["topic"].iloc[0], time, nodes, ending, before,
                min(reached[earlier:], default=None),
                time_to_repair(at, times, reached, target), rmr_before, restored,
            )
        )  # fmt: skip
    return pd.DataFrame(rows, columns=RECOVERY.names)


def _faults(gone: pd.DataFrame) -> list[tuple[int, int, str]]:
    """(time, nodes, ending) of each time at which nodes were gone."""
    faults: list[tuple[int, int, str]] = []
    latest = 0
    for time, ending in sorted(zip(gone["time"], gone["ending"], strict=True)):
        if faults and time - latest <= TOGETHER:
            faults[-1] = (faults[-1][0], faults[-1][1] + 1, faults[-1][2])
        else:
            faults.append((int(time), 1, ending))
        latest = time
    return faults


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
