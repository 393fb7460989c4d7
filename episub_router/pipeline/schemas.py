"""The tables that others build on, as Spark types, each column with its unit and meaning.

Times are nanoseconds (int64): since 1970 by the clock of the node that they belong to, of a
simulated run since its start. Peers are peer ids in their text form where the bytes are a peer
id, else hexadecimal; a simulated node is `sim-<number>`. Ids of messages are text if they are
printable, else hexadecimal.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_TEXT, _LONG, _INT = StringType(), LongType(), IntegerType()


def _struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields.items()])


PART = _struct(kind=_TEXT, topic=_TEXT, messages=ArrayType(_TEXT), peers=ArrayType(_TEXT))
"""One thing that an RPC carried. `kind` is message, subscribe, unsubscribe, ihave, iwant, graft,
prune, idontwant or, for Episub's other control messages, their name in lower case. `messages`
are the ids that it names, `peers` the peers (of PRUNE's peer exchange)."""

SDS = _struct(
    action=_TEXT,  # send, deliver, ack, missing, found, lost, expired
    channel=_TEXT,
    participant=_TEXT,
    message=_TEXT,
    other=_TEXT,  # deliver: the sender; ack: by whom
    purpose=_TEXT,  # send: content, resend, sync, repair, ephemeral
    lamport=_LONG,
    history=ArrayType(_TEXT),  # causal history; missing: the dependencies
    position=_LONG,
    lost=ArrayType(_TEXT),
    probability=DoubleType(),
    after=_LONG,  # found: ns since it was missed
)
"""An event of an SDS channel (docs/trace.md)."""

EVENT = _struct(
    event=_TEXT,  # a kind of docs/trace.md, or `other`: one that this version doesn't know
    peer=_TEXT,  # whose event it is
    time=_LONG,
    topic=_TEXT,
    message=_TEXT,
    remote=_TEXT,  # the other peer: sender, receiver, neighbour
    hops=_INT,
    size=_INT,  # bytes: of the message, or of the RPC
    payload=_INT,  # bytes of messages within the RPC
    seq=_LONG,  # of the Episub frame
    state=_TEXT,  # tree: eager, lazy, none; node: start, leave, crash; neighbor: up, down
    kind=_TEXT,  # of the neighbour: near, random; of the stream: its protocol
    reason=_TEXT,  # of a reject, discard or a neighbour's end
    count=_INT,  # of discards
    rtt=_LONG,  # ns
    parts=ArrayType(PART),  # of an RPC
    sds=SDS,
)

RECORD = StructType(
    [
        StructField("run", _TEXT, False),
        StructField("status", _TEXT, False),
        StructField("file", _TEXT, False),
        StructField("offset", _LONG, False),
        *EVENT.fields,
        StructField("detail", _TEXT, True),
        StructField("late", BooleanType(), True),
    ]
)
"""What a reader makes of a file, one row per record. `status` is `event`; `quarantined` for what
can't be read, with the reason in `detail` and its bytes in `size`; or `file`, once at the end of
each file, with the reader's own counts in `detail` (JSON). `offset` is where the record begins: a
byte of the uncompressed file, or a row of a Parquet file. Of a header or report, `detail` has all
fields (JSON). `late` is set for events that a stream got behind its watermark."""

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
    ]
)
"""What has been ingested, one row per file. records = events + quarantined."""
