"""Parameters of tests that need a peer of each kind."""

from __future__ import annotations

from typing import Any

import pytest


def each(*kinds: str) -> list[Any]:
    return [pytest.param(kind, marks=pytest.mark.peers(kind), id=kind) for kind in kinds]


STOCK = each("py", "js", "rust", "go")
