"""What is under way, on standard error, while a command runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

ShowProgress: TypeAlias = Callable[[str, int, int, str], None]
"""Called with a stage's name, what is done, what there is to do, and a remark."""


@contextmanager
def live_progress() -> Iterator[ShowProgress]:
    """A bar for each stage under way in the block, if standard error is a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description:<20}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bars:
        stages: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int, note: str) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total, note=note)
            bars.update(stages[stage], completed=done, note=note, visible=done < total)

        yield show
