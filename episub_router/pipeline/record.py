"""The columns of a record, declared once: Arrow's schema here, from which Spark's is derived.

Times are nanoseconds: since 1970 by the clock of the node that they belong to, of a simulated
run since its start. Peers are peer ids in their text form where the bytes are a peer id, else
hexadecimal; a simulated node is `sim-<number>`. Message ids are text if printable, else
hexadecimal.
"""

import pyarrow as pa


def list_of(kind: pa.DataType) -> pa.DataType:
    """A list of `kind`, with the name that Spark gives to what is in a list; Arrow's differs."""
    return pa.list_(pa.field("element", kind))


TEXTS = list_of(pa.string())

PART = pa.struct(
    [("kind", pa.string()), ("topic", pa.string()), ("messages", TEXTS), ("peers", TEXTS)]
)
"""One thing that an RPC carried. `kind` is message, subscribe, unsubscribe, ihave, iwant, graft,
prune, idontwant or, for Episub's other control messages, their name in lower case. `messages`
are the ids that it names, `peers` the peers (of PRUNE's peer exchange)."""

SDS = pa.struct(
    [
        ("action", pa.string()),  # send, deliver, ack, missing, found, lost, expired
        ("channel", pa.string()),
        ("participant", pa.string()),
        ("message", pa.string()),
        ("other", pa.string()),  # deliver: the sender; ack: the acknowledging participant
        ("purpose", pa.string()),  # send: content, resend, sync, repair, ephemeral
        ("lamport", pa.int64()),
        ("history", TEXTS),  # causal history; missing: the dependencies
        ("position", pa.int64()),
        ("lost", TEXTS),
        ("probability", pa.float64()),
        ("after", pa.int64()),  # found: ns since it was missed
    ]
)
"""An event of an SDS channel (docs/trace.md)."""

RECORD = pa.schema([
    pa.field("run", pa.string(), nullable=False),
    pa.field("status", pa.string(), nullable=False),
    pa.field("file", pa.string(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    ("event", pa.string()),  # a kind of docs/trace.md, or `other`: unknown to this version
    ("peer", pa.string()),  # the node that it happened at
    ("time", pa.int64()),
    ("topic", pa.string()),
    ("message", pa.string()),
    ("remote", pa.string()),  # the other peer: sender, receiver, neighbour
    ("hops", pa.int32()),
    ("size", pa.int32()),  # bytes: of the message, or of the RPC
    ("payload", pa.int32()),  # bytes of messages within the RPC
    ("seq", pa.int64()),  # of the Episub frame
    # Of a tree's link: eager, lazy, none; of a node: start, leave, crash; of a neighbour: up, down.
    ("state", pa.string()),
    # Of a neighbour: near, random; of a stream: its protocol; of a node that starts: its region;
    # of a header: the router.
    ("kind", pa.string()),
    ("reason", pa.string()),  # of a reject, discard or a neighbour's end
    ("count", pa.int32()),  # of discards
    ("rtt", pa.int64()),  # ns
    ("parts", list_of(PART)),  # of an RPC
    ("sds", SDS),
    ("detail", pa.string()),
    ("late", pa.bool_()),
])  # fmt: skip
"""What a reader makes of a file, one row per record. `status` is `event`; `quarantined` for what
can't be read, with the reason in `detail` and its bytes in `size`; or `file`, once at the end of
each file, with the reader's own counts in `detail` (JSON). `offset` is where the record begins: a
byte of the uncompressed file, or a row of a Parquet file. Of a header or report, `detail` has all
fields (JSON). `late` is set for events that a stream got behind its watermark."""

_NAMES = ("run", "status", "file", "event", "peer", "topic", "message", "remote")

ENCODED = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in _NAMES else field
        for field in RECORD
    ]
)
"""`RECORD` with dictionaries of the texts that are the same in many rows, as Parquet has them."""
