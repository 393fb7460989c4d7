"""Write docs/parameters.md from the params: `python -m tests.docs.render_parameters`."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from episub_router import FallbackParams, PubsubParams, RouterParams
from episub_router.net.limits import NetLimits
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.report.params import ReportParams
from episub_router.protocol.params import BroadcastParams, MembershipParams
from episub_router.sds import SdsParams
from episub_router.trace.params import TracerParams
from episub_router.wire import WireLimits
from tests.docs.snippets import ROOT

PATH = ROOT / "docs" / "parameters.md"
PARAMS: list[type[Any]] = [
    MembershipParams,
    BroadcastParams,
    RouterParams,
    FallbackParams,
    PubsubParams,
    WireLimits,
    NetLimits,
    SdsParams,
    TracerParams,
    AnswerParams,
    ReportParams,
]

_INTRODUCTION = """\
# Parameters

Every parameter, once. *Source* says where the default comes from; `ours` is a choice of this
project, with its reason. Written by `python -m tests.docs.render_parameters`: change the dataclass,
not this file.
"""


def render() -> str:
    """The text of docs/parameters.md: one table for each class of `PARAMS`."""
    return "\n".join([_INTRODUCTION, *map(_table, PARAMS)])


def _table(params: type[Any]) -> str:
    summary = (params.__doc__ or "").split("\n\n")[0].replace("\n    ", " ")
    rows = [
        f"| `{spec.name}` | {_value(spec.default)} | {spec.metadata['unit']} "
        f"| {spec.metadata['source']} |"
        for spec in fields(params)
    ]
    head = ["| parameter | default | unit | source of the default |", "|---|---|---|---|"]
    return "\n".join([f"## `{params.__name__}`", "", summary, "", *head, *rows, ""])


def _value(default: object) -> str:
    if isinstance(default, Enum):
        return f"`{type(default).__name__}.{default.name}`"
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    return str(default)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
