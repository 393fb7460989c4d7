"""Why a dial failed, for people."""

from __future__ import annotations

from itertools import pairwise

import pytest
from libp2p.network.exceptions import SwarmException
from libp2p.transport.exceptions import OpenConnectionError
from multiaddr import Multiaddr

from episub_router.addresses import is_circuit
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


def test_an_address_that_cannot_be_read_is_no_circuit() -> None:
    """Peerstores keep such ones, and good ones beside them are dialled."""
    bad, good = Multiaddr(b"\xff\xff\x01"), Multiaddr("/ip4/127.0.0.1/tcp/1")
    with pytest.raises(Exception, match="protocol"):
        str(bad)
    assert sorted([bad, good], key=is_circuit) == [bad, good]
