"""The rows behind a report's figures, all of them, as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.lake import GOLD, SILVER, Lake

RAW = (
    (GOLD, "spread"), (GOLD, "messages"), (GOLD, "latency_cdf"), (GOLD, "missing"),
    (GOLD, "duplicate_causes"), (GOLD, "control_traffic"), (GOLD, "load"), (GOLD, "balance"),
    (GOLD, "loss_reasons"), (GOLD, "overlay"), (GOLD, "recovery"), (GOLD, "explained"),
    (GOLD, "cuts"), (GOLD, "rest"), (GOLD, "quality"), (GOLD, "sds_channels"), (SILVER, "clocks"),
)  # fmt: skip
"""Tables that a report is made of, but for those with a row for each message and peer."""


def raw_rows(lake: Lake, runs: Sequence[str]) -> Iterator[str]:
    """A line for each row: `table`, and the table's columns."""
    tables = [
        lake.read(layer, name, runs).select(
            F.to_json(
                F.struct(F.lit(name).alias("table"), "*"), {"ignoreNullFields": "false"}
            ).alias("line")
        )
        for layer, name in RAW
    ]
    for row in reduce(DataFrame.unionAll, tables).toLocalIterator():
        yield f"{row.line}\n"
