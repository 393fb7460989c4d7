"""Declaring the fields of a params dataclass, and checking their values."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any


def param(default: Any, unit: str, source: str) -> Any:
    """Declare a parameter with its `unit` and the `source` of its `default`."""
    return field(default=default, metadata={"unit": unit, "source": source})


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket: `burst` at once, and `per_second` in the long run."""

    per_second: float
    burst: int

    def __str__(self) -> str:
        return f"{self.per_second:g}/s, {self.burst:,} at once"


def check_numbers(
    params: Any,
    may_be_zero: Collection[str] = (),
    may_be_none: Collection[str] = (),
    *,
    endless: bool = False,
) -> None:
    """Make sure that every number among the parameters of `params` is more than 0.

    Those named may be 0 or None as well; infinity is refused unless `endless`. Raises TypeError or
    ValueError that names the first parameter that is wrong.
    """
    for spec in fields(params):
        value = getattr(params, spec.name)
        if isinstance(value, Enum | tuple) or isinstance(spec.default, bool):
            continue
        if value is None and spec.name in may_be_none:
            continue
        if isinstance(value, Rate):
            value = min(value.per_second, value.burst)
        if not isinstance(value, int | float):
            raise TypeError(f"{spec.name} must be a number, not {type(value).__name__}: {value!r}")
        zero = spec.name in may_be_zero
        if not (value > 0 or (zero and value == 0)) or not (endless or math.isfinite(value)):
            raise ValueError(
                f"{spec.name} must be {'0 or more' if zero else 'more than 0'}: {value}"
            )
