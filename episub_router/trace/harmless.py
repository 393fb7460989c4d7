"""Errors of the tracer are counted and never stop the node."""

from __future__ import annotations

from functools import wraps
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type[Any])


def harmless(cls: _C) -> _C:
    """Have what public methods of `cls` raise counted by its `fail`, for example over an id that is
    no bytes."""

    def guarded(method: Any) -> Any:
        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                method(self, *args, **kwargs)
            except Exception as error:
                self.fail(error)

        return call

    for name, method in [*vars(cls).items()]:
        if callable(method) and name != "fail" and not name.startswith("_"):
            setattr(cls, name, guarded(method))
    return cls
