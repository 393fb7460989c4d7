"""Reading trace files of every format, damaged or not. Needs nothing but protobuf."""

from episub_router.trace.reading.file import Record, TraceFile, Unreadable, kind_of

__all__ = ["Record", "TraceFile", "Unreadable", "kind_of"]
