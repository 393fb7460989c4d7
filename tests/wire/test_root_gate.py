"""How much of ROOT one peer may send."""

from __future__ import annotations

from episub_router.protocol.messages import Root, RootRequest, TreeRoot
from episub_router.wire.root_gate import ROOT_RATE, RootGate

PEER = b"peer"
LINE, REQUEST = TreeRoot(b"source 1", 1, 0.0), RootRequest(b"source 1", 1)


def test_a_burst_passes_and_what_is_beyond_it_is_cut() -> None:
    gate = RootGate()
    burst = Root((LINE,) * (ROOT_RATE.burst - 2))
    assert gate.admit(PEER, burst, 100.0) is burst
    assert gate.admit(PEER, Root((LINE,) * 9, (REQUEST,)), 100.0) == Root((LINE,), (REQUEST,))
    assert gate.admit(PEER, Root((LINE,), (REQUEST,)), 100.0) == Root()


def test_it_fills_again_up_to_the_burst() -> None:
    gate = RootGate()
    gate.admit(PEER, Root((LINE,) * ROOT_RATE.burst), 100.0)
    second = int(ROOT_RATE.per_second)
    assert gate.admit(PEER, Root((LINE,) * 99), 101.0) == Root((LINE,) * second)
    assert gate.admit(PEER, Root((LINE,) * 1000), 1000.0) == Root((LINE,) * ROOT_RATE.burst)
