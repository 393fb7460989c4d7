"""The tables of docs/parameters.md, from the params."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from enum import Enum
from itertools import pairwise
from typing import Any

from episub_router import FallbackParams, PubsubParams, RouterParams
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.report.params import ReportParams
from episub_router.protocol.params import BroadcastParams, MembershipParams
from episub_router.sds import SdsParams
from episub_router.trace.params import TracerParams
from episub_router.wire import WireLimits
from tests.docs import marked

PARAMS: list[type[Any]] = [
    MembershipParams,
    BroadcastParams,
    RouterParams,
    FallbackParams,
    PubsubParams,
    WireLimits,
    SdsParams,
    TracerParams,
    AnswerParams,
    ReportParams,
]


def table(name: str) -> str:
    """The table of the params class called `name`."""
    params = next(each for each in PARAMS if each.__name__ == name)
    summary = (params.__doc__ or "").split("\n\n")[0].replace("\n    ", " ")
    does = sentences(params)
    rows = [
        (f"`{spec.name}`", *([does[spec.name]] if does else []), _value(spec.default),
         spec.metadata["unit"], spec.metadata["source"])
        for spec in fields(params)
    ]  # fmt: skip
    titles = ("parameter", *(["what it does"] if does else []), "default", "unit")
    return f"{summary}\n\n{marked.table((*titles, 'source of the default'), rows)}"


def sentences(params: type[Any]) -> dict[str, str]:
    """The docstring below each field of `params`, on one line; fields without one are left out."""
    (definition,) = ast.parse(inspect.getsource(params)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for statement, below in pairwise(definition.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text).replace("\n", " ")
    return found


def _value(default: object) -> str:
    if isinstance(default, Enum):
        return f"`{type(default).__name__}.{default.name}`"
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    return str(default)
