"""Collecting records column by column, and handing them over as Arrow batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from episub_router.pipeline.record import PART, RECORD, list_of

BATCH = 20_000
"""Records in one batch: some 5 MB, of which a worker holds one or two."""

_DENSE = ("event", "peer", "time", "topic", "message", "remote", "hops", "size", "payload", "seq")
_SPARSE = ("state", "kind", "reason", "count", "rtt", "sds", "detail")


class Columns:
    """Records of one run under way to an Arrow batch; `file` is the one that they are added of.

    A reader calls `begin`, then sets columns: the dense ones by appending to the lists, the
    others by `put`. `part` adds to the RPC that was begun last. `take` hands all over.
    """

    def __init__(self, run: str, file: str) -> None:
        self._run = run
        self.file = file
        self._reset()

    def _reset(self) -> None:
        self.files: list[str] = []
        self.offset: list[int] = []
        self.status: list[str] = []
        self.event: list[str | None] = []
        self.peer: list[str | None] = []
        self.time: list[int | None] = []
        self.topic: list[str | None] = []
        self.message: list[str | None] = []
        self.remote: list[str | None] = []
        self.hops: list[int | None] = []
        self.size: list[int | None] = []
        self.payload: list[int | None] = []
        self.seq: list[int | None] = []
        self._sparse: dict[str, dict[int, Any]] = {name: {} for name in _SPARSE}
        self._rpcs: list[int | None] = []
        self._part_kind: list[str] = []
        self._part_topic: list[str | None] = []
        self._ids_from: list[int | None] = []
        self._ids: list[str] = []
        self._peers_from: list[int | None] = []
        self._peers: list[str] = []

    def __len__(self) -> int:
        return len(self.offset)

    def add(
        self,
        offset: int,
        event: str | None,
        peer: str | None,
        time: int | None,
        topic: str | None = None,
        message: str | None = None,
        remote: str | None = None,
        hops: int | None = None,
        size: int | None = None,
        payload: int | None = None,
        seq: int | None = None,
        rpc: bool = False,
        status: str = "event",
    ) -> None:
        """A record. With `rpc`, parts follow by `part`."""
        self.files.append(self.file)
        self.offset.append(offset)
        self.status.append(status)
        self.event.append(event)
        self.peer.append(peer)
        self.time.append(time)
        self.topic.append(topic)
        self.message.append(message)
        self.remote.append(remote)
        self.hops.append(hops)
        self.size.append(size)
        self.payload.append(payload)
        self.seq.append(seq)
        self._rpcs.append(len(self._part_kind) if rpc else None)

    def put(self, **values: Any) -> None:
        """Values of the record added last, in the columns that are mostly empty."""
        row = len(self.offset) - 1
        for name, value in values.items():
            self._sparse[name][row] = value

    def part(
        self,
        kind: str,
        topic: str | None = None,
        messages: list[str] | None = None,
        peers: list[str] | None = None,
    ) -> None:
        """Something that the RPC added last carried."""
        self._part_kind.append(kind)
        self._part_topic.append(topic)
        if messages is None:
            self._ids_from.append(None)
        else:
            self._ids_from.append(len(self._ids))
            self._ids += messages
        if peers is None:
            self._peers_from.append(None)
        else:
            self._peers_from.append(len(self._peers))
            self._peers += peers

    def quarantine(self, offset: int, size: int | None, reason: str) -> None:
        """`size` bytes from `offset` on that can't be read."""
        self.add(offset, None, None, None, size=size, status="quarantined")
        self.put(detail=reason)

    def end(self, detail: str) -> None:
        """The file's last row: what its reader counted."""
        self.add(0, None, None, None, status="file")
        self.put(detail=detail)

    def take(self) -> pa.RecordBatch:
        """What was collected since the last time."""
        rows = len(self.offset)
        columns: dict[str, Any] = {
            "run": pa.DictionaryArray.from_arrays([0] * rows, [self._run]).cast(pa.string()),
            "file": self.files,
            "offset": self.offset,
            "status": self.status,
            "parts": self._parts(),
            "late": pa.array([False]).take(pa.array([0] * rows)),
        }
        for name in _DENSE:
            columns[name] = getattr(self, name)
        for name, sparse in self._sparse.items():
            values: list[Any] = [None] * rows
            for row, value in sparse.items():
                values[row] = value
            columns[name] = values
        arrays = [
            column if isinstance(column, pa.Array) else _array(column, field.type)
            for field in RECORD
            for column in (columns[field.name],)
        ]
        self._reset()
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD)

    def _parts(self) -> pa.Array:
        parts = pa.StructArray.from_arrays(
            [
                _array(self._part_kind, pa.string()),
                _array(self._part_topic, pa.string()),
                _lists(self._ids_from, pa.array(self._ids, type=pa.string())),
                _lists(self._peers_from, pa.array(self._peers, type=pa.string())),
            ],
            fields=list(PART),
        )
        return _lists(self._rpcs, parts)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except pa.ArrowInvalid:
        # Text in a protobuf that isn't UTF-8 comes as bytes.
        return pa.array([as_text(value) for value in values], type=kind)


def as_text(value: Any) -> Any:
    """`value` with all bytes in it as text, what isn't UTF-8 as escapes."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list):
        return [as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    return value


def _lists(starts: list[int | None], values: pa.Array) -> pa.Array:
    """Lists that begin at `starts` in `values`, one after another; None is a null."""
    offsets = pa.array([*starts, len(values)], type=pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=list_of(values.type))
