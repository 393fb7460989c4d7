"""The tables that others build on, as Spark types, each column with its unit and meaning."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from episub_router.pipeline.record import RECORD as _ARROW_RECORD

_TEXT, _LONG = StringType(), LongType()

RECORD: StructType = from_arrow_schema(_ARROW_RECORD)
"""What has been read, one row per record: the columns of `record`."""

MANIFEST = StructType(
    [
        StructField("batch", _TEXT, False),
        StructField("run", _TEXT, False),
        StructField("file", _TEXT, False),
        StructField("digest", _TEXT, False),  # SHA-256 of the file
        StructField("bytes", _LONG, False),
        StructField("format", _TEXT, False),  # pb, json, simulator, hermes, unknown; +gz
        StructField("records", _LONG, False),  # counted by the reader
        StructField("events", _LONG, False),  # counted in what was written
        StructField("quarantined", _LONG, False),
        StructField("late", _LONG, False),  # events behind the watermark, of a stream
        StructField("latest", _LONG, True),  # time of the latest event
        StructField("result", _TEXT, True),  # of a simulation: its summary (JSON)
        StructField("origin", _TEXT, True),  # the batch that this one has replaced
    ]
)
"""What has been ingested, one row per file. records = events + quarantined."""
