"""docs/parameters.md says what the params dataclasses say."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from episub_router import EpisubRouter, FallbackParams, RouterParams
from episub_router.protocol.params import EpisubParams
from episub_router.wire import WireLimits
from tests.docs.parameters import PARAMS, sentences
from tests.docs.snippets import ROOT


def test_the_page_has_all_of_them() -> None:
    page = (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert re.findall("<!-- parameters: (.+) -->", page) == [each.__name__ for each in PARAMS]


@pytest.mark.parametrize("params", PARAMS, ids=lambda params: params.__name__)
def test_each_parameter_has_unit_and_source(params: type[Any]) -> None:
    for spec in fields(params):
        assert spec.metadata.get("unit"), spec.name
        assert spec.metadata.get("source"), spec.name


@pytest.mark.parametrize("params", [each for each in PARAMS if each is not WireLimits])
def test_each_parameter_says_what_it_does(params: type[Any]) -> None:
    assert sorted(sentences(params)) == sorted(spec.name for spec in fields(params))


def test_the_protocol_has_few_parameters() -> None:
    """At most 40 in all, so that a user can know them all."""
    halves = [spec.name for spec in fields(EpisubParams)]
    count = sum(len(fields(getattr(EpisubParams(), name))) for name in halves)
    assert count <= 40


def test_the_router_has_few_parameters() -> None:
    """At most 60 in all, with the protocol's."""
    kinds = [type(getattr(EpisubParams(), spec.name)) for spec in fields(EpisubParams)]
    assert sum(len(fields(kind)) for kind in [*kinds, RouterParams, FallbackParams]) <= 60


def test_the_usual_parameters_are_set_by_the_number_of_nodes() -> None:
    assert EpisubRouter(EpisubParams.for_size(10_000)).degree == 8
    assert EpisubRouter(EpisubParams.for_size(100)).degree == 6
