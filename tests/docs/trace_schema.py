"""Tables of the events of a trace, from the comments in proto/trace.proto."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.docs import marked
from tests.docs.snippets import ROOT

TABLES = {
    "go": (
        "PublishMessage", "RejectMessage", "DuplicateMessage", "DeliverMessage",
        "OnNewOutboundStream", "OnClosedOutboundStream", "RecvRPC", "SendRPC", "SendRPCCompleted",
        "DropRPC", "Join", "Leave", "Graft", "Prune",
    ),
    "added": ("PayloadMeta", "FrameMeta", "TreeMeta"),
    "events": (
        "TraceHeader", "TraceReport", "NodeChange", "NeighborChange", "RttSample", "Discard", "Sds",
    ),
    "sds": (
        "SdsSend", "SdsDeliver", "SdsAck", "SdsMissing", "SdsFound", "SdsLost", "SdsExpired",
    ),
}  # fmt: skip

_COMMENTED = r"((?: *//[^\n]*\n)*)"
_MESSAGE = re.compile(rf"{_COMMENTED}  message (\w+) {{\n(.*?)^  }}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(rf"{_COMMENTED} +(?:optional|repeated) \w+ (\w+) = \d+")


def table(name: str) -> str:
    """A row for each message, by the name of the field that has it."""
    schema = (ROOT / "proto" / "trace.proto").read_text(encoding="utf-8")
    names = dict(re.findall(r"optional (\w+) (\w+) = \d+;", schema))
    found = {kind: (_said(comment), body) for comment, kind, body in _MESSAGE.findall(schema)}
    rows = [
        (f"`{names[kind]}`", found[kind][0], "; ".join(_fields(found[kind][1])))
        for kind in TABLES[name]
    ]
    return marked.table(("field", "when", "what is in it"), rows)


def _fields(body: str) -> Iterator[str]:
    for comment, field in _FIELD.findall(body):
        said = _said(comment).rstrip(".")
        yield f"`{field}`: {said}" if said else f"`{field}`"


def _said(comment: str) -> str:
    return " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
