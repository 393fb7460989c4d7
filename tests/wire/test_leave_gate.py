"""Which peers may say that another left."""

from __future__ import annotations

import time

from episub_router.protocol.messages import Disconnect, Leave
from episub_router.wire.leave_gate import MAX_LEAVE_AGE, MAX_LEAVES, LeaveGate
from episub_router.wire.leave_proof import sign_leave
from tests.wire.keys import ALICE, id_of

SOURCE = id_of(ALICE)
RELAY = b"relay"
GOODBYE = Disconnect(alive=False)


def leave(seq: int, topic: str = "t") -> Leave:
    return Leave(SOURCE, 3, sign_leave(ALICE.private_key, topic, seq))


def test_a_proven_leave_passes_once() -> None:
    gate = LeaveGate()
    message = leave(time.time_ns())
    assert gate.admit(RELAY, "t", message) is message
    assert gate.admit(RELAY, "t", message) is None
    newer = leave(time.time_ns())
    assert gate.admit(RELAY, "t", newer) is newer
    assert gate.admit(RELAY, "t", message) is None


def test_old_early_and_foreign_leaves_do_not_pass() -> None:
    gate = LeaveGate()
    now = time.time_ns()
    too_long = int((MAX_LEAVE_AGE + 1) * 1e9)
    assert gate.admit(RELAY, "t", leave(now - too_long)) is None
    assert gate.admit(RELAY, "t", leave(now + 2 * too_long)) is None
    assert gate.admit(RELAY, "t", leave(now, topic="u")) is None
    assert gate.admit(RELAY, "t", Leave(SOURCE, 3, b"")) is None
    assert gate.admit(RELAY, "t", Leave(b"another", 3, leave(now).proof)) is None


def test_the_source_itself_is_believed_but_not_passed_on_unproven() -> None:
    gate = LeaveGate()
    assert gate.admit(SOURCE, "t", Leave(SOURCE, 3, b"")) == GOODBYE
    assert gate.admit(SOURCE, "t", leave(1)) == GOODBYE
    message = leave(time.time_ns())
    assert gate.admit(SOURCE, "t", message) is message
    assert gate.admit(SOURCE, "t", message) == GOODBYE


def test_the_memory_is_bounded() -> None:
    gate = LeaveGate()
    message = leave(time.time_ns())
    gate._newest.update({("t", b"%d" % number): 1 for number in range(MAX_LEAVES)})
    assert gate.admit(RELAY, "t", message) is message
    assert len(gate._newest) == MAX_LEAVES
    assert gate.admit(RELAY, "t", message) is None, "the newest is remembered"
