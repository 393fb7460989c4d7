"""Fewer questions to the JVM.

PySpark asks it for the same classes and methods again with each column that is made, and where a
class isn't where the JVM looks first, that searches all of Spark's jars: a third of the time in
which a small report was made.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from py4j.java_gateway import JavaMember

_OFTEN = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.expressions.Window",
    "PythonUtils",
    "PythonSQLUtils",
    "PythonRDD",
    "SerDeUtil",
    "SimplePythonFunction",
)
"""Classes that PySpark asks for by these names."""


_PURE = ("col",)
"""Functions that are called with the same text again and again, and give what nothing changes."""


class _Remembered:
    """A class of the JVM's whose methods are asked for once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        if isinstance(member, JavaMember):
            # Not a field: its value may change.
            known = lru_cache(maxsize=1024)(partial(_call, member)) if name in _PURE else member
            setattr(self, name, known)
        return member

    def __call__(self, *arguments: Any) -> Any:
        return self._found(*arguments)


def _call(member: JavaMember, name: str) -> Any:
    return member(name)


def remember(jvm: Any) -> None:
    """Have `jvm`, a session's view of its JVM, know the classes that it is asked for most."""
    for name in _OFTEN:
        if name not in vars(jvm):
            setattr(jvm, name, _Remembered(getattr(jvm, name)))
