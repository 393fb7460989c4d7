"""docs/parameters.md says what the params dataclasses say."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.docs.render_parameters import PARAMS, PATH, render


def test_the_page_is_fresh() -> None:
    assert PATH.read_text(encoding="utf-8") == render(), (
        "docs/parameters.md is stale: run python -m tests.docs.render_parameters"
    )


@pytest.mark.parametrize("params", PARAMS, ids=lambda params: params.__name__)
def test_each_parameter_has_unit_and_source(params: type[Any]) -> None:
    for spec in fields(params):
        assert spec.metadata.get("unit"), spec.name
        assert spec.metadata.get("source"), spec.name
