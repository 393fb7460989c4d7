"""Errors of the tracer are counted and never stop the node."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar


class Failing(Protocol):
    """An object with methods that may fail."""

    def fail(self, error: Exception) -> None:
        """Count `error`."""


_F = TypeVar("_F", bound=Callable[..., None])


def harmless(method: _F) -> _F:
    """Have what `method` raises counted, for example over an id that is no bytes."""

    @wraps(method)
    def call(self: Failing, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.fail(error)

    return call  # type: ignore[return-value]
