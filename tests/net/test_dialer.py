"""Why a dial failed, for people."""

from __future__ import annotations

from itertools import pairwise

import pytest
from libp2p.network.exceptions import SwarmException
from libp2p.transport.exceptions import OpenConnectionError

from episub_router.net.connections.dialer import root_cause


def chain(*errors: Exception) -> Exception:
    """The first of them, each caused by the next."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            chain(SwarmException("dial"), OpenConnectionError("tcp"), OSError("refused")),
            "nothing listens there, or a firewall is in between: refused",
        ),
        (
            chain(OSError("all attempts failed"), ExceptionGroup("each", [OSError("refused")])),
            "nothing listens there, or a firewall is in between: all attempts failed",
        ),
        (
            # As from the transport of WebSockets through a proxy.
            chain(SwarmException("dial"), ExceptionGroup("nursery", [ValueError("a\nb")])),
            "ValueError: a b",
        ),
        (
            ExceptionGroup("nursery", [chain(SwarmException("dial"), TimeoutError())]),
            "nothing listens there, or a firewall is in between: ",
        ),
        (KeyError(), "KeyError"),
    ],
)
def test_the_error_at_the_bottom_is_named(error: Exception, text: str) -> None:
    assert root_cause(error) == text
