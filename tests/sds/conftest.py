"""Vectors recorded from the existing implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    with (Path(__file__).parent / "vectors" / "sds-vectors.json").open() as file:
        return json.load(file)
