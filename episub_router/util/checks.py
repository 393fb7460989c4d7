"""Errors that say what was passed in place of what was wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def check_type(name: str, value: Any, wanted: type, *, optional: bool = False) -> None:
    """Raises TypeError that names the argument, the type that it must have, and the one it has."""
    if isinstance(value, wanted) or (optional and value is None):
        return
    got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise TypeError(
        f"{name} must be {_article(wanted.__name__)}{' or None' if optional else ''}, not {got}"
    )


def check_seconds(name: str, value: Any) -> None:
    """Raises TypeError for what is no number, and ValueError for one below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0 seconds, not {value:g}")


def check_methods(name: str, value: Any, *methods: str) -> None:
    """Raises TypeError that names the methods that `value` hasn't got."""
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if missing or isinstance(value, type):
        got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"{name} must have the methods {', '.join(methods)}; {got} hasn't")


def check_names(name: str, values: Iterable[str]) -> frozenset[str]:
    """`values` as a set. Raises TypeError where they are one string, or not all are strings."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be several strings, as a list has them, not a str")
    check_methods(name, values, "__iter__")
    names = frozenset(values)
    for value in names:
        check_type(f"each of {name}", value, str)
    return names


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
