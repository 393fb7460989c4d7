"""Windows of time."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams


def window_of(time: str | Column, params: AnswerParams) -> Column:
    """The begin of the window that `time` is in, in ns."""
    at = F.col(time) if isinstance(time, str) else time
    # A division would be one of doubles, which haven't all the digits of times since 1970.
    return at - F.pmod(at, F.lit(int(params.window * SECOND)))
