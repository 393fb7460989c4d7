"""Reading arguments: errors in one line that names the option and what is allowed."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Never


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage in front."""

    def error(self, message: str) -> Never:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class CommandError(Exception):
    """The command can't do its work; `str()` says why, in one line."""


def whole(low: int, high: int) -> Callable[[str], int]:
    """An argument that is a whole number in [`low`, `high`]."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {low} to {high}, not {text!r}"
            )
        return value

    return parse


def share(text: str) -> float:
    """An argument in [0, 1)."""
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and less than 1, not {text!r}")
    return value


def seconds(text: str) -> float:
    """An argument that is a duration."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be more than 0 seconds, not {text!r}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
