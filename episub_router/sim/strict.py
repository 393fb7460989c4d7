"""Tables of plain data into dataclasses, refusing everything that doesn't fit.

Every refusal is a `ScenarioError` that names the key, the value and what would be allowed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class ScenarioError(ValueError):
    """A scenario that can't be run, and why."""


def setting(default: Any = dataclasses.MISSING, *, least: float | None = None,
            most: float | None = None, above: float | None = None) -> Any:  # fmt: skip
    """A dataclass field with bounds: `least` and `most` are allowed, `above` isn't."""
    bounds = {"least": least, "most": most, "above": above}
    return dataclasses.field(default=default, metadata=bounds)


def read(cls: type[T], table: object, at: str) -> T:
    """Make a `cls` from `table`, found at the dotted key `at`."""
    if not isinstance(table, Mapping):
        raise ScenarioError(f"{at or 'scenario'} must be a table, not {table!r}")
    hints = get_type_hints(cls)
    known = {spec.name: spec for spec in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == "kind" and key not in known and hasattr(cls, key):
            continue
        path = f"{at}.{key}" if at else key
        if key not in known:
            raise ScenarioError(f"unknown key {path}; allowed here: {', '.join(known)}")
        values[key] = _value(hints[key], value, path)
        _check_bounds(known[key].metadata, values[key], path)
    for name, spec in known.items():
        required = spec.default is spec.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ScenarioError(f"{at + '.' if at else ''}{name} is missing")
    try:
        return cls(**values)
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError(f"{at or 'scenario'}: {error}") from error


def _value(hint: Any, value: object, at: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _one_of(get_args(hint), value, at)
    is_enum = isinstance(hint, type) and issubclass(hint, Enum)
    if origin is Literal or is_enum:
        allowed = [member.value for member in hint] if is_enum else get_args(hint)
        if value not in allowed:
            raise ScenarioError(f"{at} = {value!r}; allowed: {_list(allowed)}")
        return hint(value) if is_enum else value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ScenarioError(f"{at} must be a list, not {value!r}")
        (element, _) = get_args(hint)
        return tuple(_value(element, entry, f"{at}[{i}]") for i, entry in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ScenarioError(f"{at} must be a table, not {value!r}")
        return dict(value)
    if dataclasses.is_dataclass(hint):
        return read(hint, value, at)  # type: ignore[arg-type]
    return _plain(hint, value, at)


def _one_of(hints: tuple[Any, ...], value: object, at: str) -> Any:
    """A union: an optional value, written "off", or tables distinguished by their `kind`."""
    if type(None) in hints:
        if value is None or value == "off":
            return None
        (hint,) = (hint for hint in hints if hint is not type(None))
        return _value(hint, value, at)
    kinds = {hint.kind: hint for hint in hints}
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{at} must be a table with a kind, not {value!r}")
    kind = value.get("kind")
    if kind not in kinds:
        shown = "is missing" if kind is None else f"= {kind!r}"
        raise ScenarioError(f"{at}.kind {shown}; allowed: {_list(kinds)}")
    return read(kinds[kind], value, at)


def _plain(hint: Any, value: object, at: str) -> Any:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if hint is Any:
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        int: number and isinstance(value, int),
        float: number and math.isfinite(value),  # type: ignore[arg-type]
        str: isinstance(value, str),
        bool: isinstance(value, bool),
    }
    if not fits[hint]:
        raise ScenarioError(f"{at} must be {names[hint]}, not {value!r}")
    return float(value) if hint is float else value  # type: ignore[arg-type]


def _check_bounds(bounds: Mapping[str, Any], value: object, at: str) -> None:
    if not isinstance(value, int | float):
        return
    least, most, above = (bounds.get(name) for name in ("least", "most", "above"))
    if (
        (least is not None and value < least)
        or (most is not None and value > most)
        or (above is not None and value <= above)
    ):
        low = f"more than {above}" if above is not None else f"at least {least}"
        wanted = [low] if above is not None or least is not None else []
        wanted += [f"at most {most}"] if most is not None else []
        raise ScenarioError(f"{at} = {value!r}; must be {' and '.join(wanted)}")


def _list(values: Any) -> str:
    return ", ".join(str(value) for value in values)
