"""No part of the package grows unnoticed."""

from __future__ import annotations

import pytest

from tests.house.budget import PACKAGE, PARTS, Size, measure, written


@pytest.mark.parametrize("part", [part for part in PARTS if (PACKAGE / part).is_dir()])
def test_no_part_is_larger_than_its_budget(part: str) -> None:
    allowed, found = written()[part], measure(part)
    over = [
        f"{name}: {figure} > {most}"
        for name, figure, most in zip(Size._fields, found, allowed, strict=True)
        if figure > most
    ]
    assert not over, (
        f"{part or 'the package'} has grown: {', '.join(over)}. Take something away, or run "
        "python -m tests.house.budget --write and say in the commit what the growth buys"
    )


def test_a_size_is_measured() -> None:
    size = measure("util")
    assert size.files >= 5
    assert size.lines > size.files
    assert 0 < size.classes < size.lines
    assert not size.parameters
