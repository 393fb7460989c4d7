"""How many events there are of what: one look at few columns, so that what there is none of isn't
looked for in all events again, and nothing is planned that has no rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.facts import clocks, lives, logs, spread, traffic

_ROWS = {
    "changes": lives.is_change,
    "duplicates": spread.is_copy,
    "losses": traffic.is_loss,
    "rtts": traffic.is_round_trip,
    "sds": logs.is_sds,
}
"""Facts of which each row is an event, and which these are."""


@dataclass(frozen=True, slots=True)
class Census:
    """What was counted."""

    rows: Mapping[str, int]
    """Of the facts `_ROWS`, in all runs."""
    rpcs: Mapping[str, int] | None
    """Ends of exchanges (`clocks.is_end`) in each run; None: not counted."""
    chains: int | None
    """Deliveries whose depth only the chain of their parents says, in all runs."""

    @classmethod
    def of(cls, events: DataFrame) -> Census:
        """Look at `events`."""
        counted = {**{name: which() for name, which in _ROWS.items()},
                   "rpcs": clocks.is_end(), "chains": spread.is_in_a_chain()}  # fmt: skip
        made = events.groupBy("run").agg(*(_count(name, which) for name, which in counted.items()))
        runs = made.collect()
        return cls(
            {name: sum(run[name] for run in runs) for name in _ROWS},
            {run["run"]: run["rpcs"] for run in runs},
            sum(run["chains"] for run in runs),
        )


NOT_COUNTED = Census({}, None, None)


def _count(name: str, which: Column) -> Column:
    return F.count_if(which).alias(name)
