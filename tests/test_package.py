"""The package's public names."""

from __future__ import annotations

import sys

import pytest

import episub_router
from tests import children


@pytest.mark.parametrize("name", episub_router.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(episub_router, name) is not None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Episubb'"):
        episub_router.Episubb  # noqa: B018


@pytest.mark.parametrize("package", ["protocol.topic", "sim.runner"])
def test_the_core_loads_without_libp2p(package: str) -> None:
    """A simulation, or a worker of a pipeline, shouldn't pay for what it can't use."""
    code = (
        f"import sys, episub_router.{package}; "
        "print([name for name in ('libp2p', 'trio', 'pyspark') if name in sys.modules])"
    )
    ran = children.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
