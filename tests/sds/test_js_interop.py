"""Both directions with the npm package @waku/sds 0.0.8, and the bugs of it that we met.

Where a test says "js bug" it asserts what the package does, so that a release that repairs it
shows up here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from episub_router.sds.interop import Interop
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Effect
from episub_router.sds.protocol.message import HistoryEntry, Message, ReceivedMessage
from episub_router.sds.protocol.outgoing import AckStatus
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from tests.sds.js_peer import JsPeer, peers

PARAMS = SdsParams(repair=True, repair_min=1.0, repair_max=4.0)
INTEROP = Interop()
CODEC = INTEROP.codec(PARAMS, lambda: int(time.time() * 1000))


class Ours:
    """Our participant with the package's filter size, on a clock that tests move."""

    def __init__(self, name: str = "py") -> None:
        self.now = 1000.0
        self.logged: dict[str, bytes] = {}
        self.effects: list[Effect] = []
        self.participant = Participant(
            name,
            "0",
            PARAMS,
            codec=CODEC,
            dialect=INTEROP.dialect(),
            rng=random.Random(1),
            now=self.now,
            wall_offset=time.time() - self.now,
        )

    def send(self, content: bytes) -> tuple[str, str]:
        message_id, effects = self.participant.send(content, self.now)
        return message_id, self._published(effects)[0]

    def receive(self, data: str) -> list[Effect]:
        raw = bytes.fromhex(data)
        effects = self.participant.receive(ReceivedMessage(CODEC.decode(raw), raw), self.now)
        self._published(effects)
        return effects

    def wait(self, seconds: float) -> list[str]:
        """What is published meanwhile."""
        published, end = [], self.now + seconds
        while self.participant.deadline() <= end:
            self.now = max(self.now, self.participant.deadline())
            published += self._published(self.participant.poll(self.now))
        self.now = end
        return published

    def _published(self, effects: list[Effect]) -> list[str]:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, fx.Logged):
                self.logged[effect.message.message_id] = effect.raw
        return [
            (e.raw if isinstance(e, fx.BroadcastBytes) else self.logged[e.message_id]).hex()
            for e in effects
            if isinstance(e, fx.BroadcastBytes | fx.Rebroadcast)
        ]

    @property
    def log(self) -> list[str]:
        return [message_id for _, message_id in self.participant.log.places()]


@pytest.fixture
def js() -> Iterator[JsPeer]:
    for (peer,) in peers(1):
        peer("open", channel_id="0", sender_id="js", options=OPTIONS)
        yield peer


OPTIONS: dict[str, Any] = {
    "causalHistorySize": 2,
    "possibleAcksThreshold": 2,
    "repairConfig": {"tMin": 1, "tMax": 2, "numResponseGroups": 1, "bufferSize": 100},
}


def test_both_directions_and_acknowledgement_by_history(js: JsPeer) -> None:
    ours = Ours()
    first, data = ours.send(b"from python")
    js("receive", message=data)
    assert js.told("sds:in:message-delivered") == [first]
    answer = js("send", content=b"from js".hex())
    effects = ours.receive(answer["message"])
    assert fx.Acknowledged(first, "js") in effects
    assert [e.message.content for e in effects if isinstance(e, fx.Logged)] == [b"from js"]
    again, data = ours.send(b"python again")
    js("receive", message=data)
    assert answer["id"] in js.told("sds:out:message-acknowledged")
    assert js("log")["ids"] == ours.log == [first, answer["id"], again]


def test_acknowledgement_by_filter_of_theirs(js: JsPeer) -> None:
    """Nearly empty filters are hardly ever wrong: they are as good as a history."""
    ours = Ours()
    sent = []
    for n in range(4):
        message_id, data = ours.send(b"%d" % n)
        js("receive", message=data)
        sent.append(message_id)
    ours.participant.log.own_seen = lambda ids: 0  # type: ignore[method-assign] # only the filter
    effects = ours.receive(js("send", content="aa")["message"])
    assert {e.message_id for e in effects if isinstance(e, fx.Acknowledged)} == set(sent)
    assert all(
        own.status is AckStatus.ACKNOWLEDGED
        for own in map(ours.participant.outgoing.get, sent)
        if own
    )


def test_acknowledgement_by_filter_of_ours(js: JsPeer) -> None:
    ours = Ours()
    ids = []
    for n in range(15):  # more than our causal history has room for
        answer = js("send", content=f"{n:02x}")
        ids.append(answer["id"])
        ours.receive(answer["message"])
    _, data = ours.send(b"one")
    js("receive", message=data)
    possibly = js.told("sds:out:message-possibly-acknowledged")
    acknowledged = js.told("sds:out:message-acknowledged")
    assert set(possibly) | set(acknowledged) == set(ids)
    assert possibly
    _, data = ours.send(b"two")
    js("receive", message=data)
    assert js("sweep_out") == {"unacknowledged": [], "possibly": []}


def test_sync_in_both_directions(js: JsPeer) -> None:
    ours = Ours()
    first, data = ours.send(b"x")
    js("receive", message=data)
    effects = ours.receive(js("sync")["message"])
    assert fx.Acknowledged(first, "js") in effects
    assert ours.log == [first]
    answer = js("send", content="aa")
    ours.receive(answer["message"])
    (sync,) = ours.wait(10.0)
    assert CODEC.decode(bytes.fromhex(sync)).content is None
    js("receive", message=sync)
    assert len(js.told("sds:in:sync-received")) == 1
    assert answer["id"] in js.told("sds:out:message-acknowledged")
    assert js("log")["ids"] == ours.log


def test_their_gap_is_repaired_by_us(js: JsPeer) -> None:
    ours = Ours()
    lost, _ = ours.send(b"lost")
    child, data = ours.send(b"child")
    js("receive", message=data)
    assert js("sweep_in")["missing"] == [lost]
    request = ""
    while not request:  # their timer runs on the real clock: a few milliseconds
        sync = js("sync")["message"]
        if sync and CODEC.decode(bytes.fromhex(sync)).repair_request:
            request = sync
    ours.receive(request)
    repaired = [m for m in ours.wait(0.5) if CODEC.decode(bytes.fromhex(m)).message_id == lost]
    assert repaired  # the author answers at once
    js("receive", message=repaired[0])
    js("sweep_in")
    assert js("log")["ids"] == [lost, child]


def test_our_gap_is_repaired_by_them(js: JsPeer) -> None:
    ours = Ours()
    lost = js("send", content="01")
    child = js("send", content="02")
    effects = ours.receive(child["message"])
    assert fx.Missing(child["id"], (lost["id"],)) in effects
    requests = [m for m in ours.wait(6.0) if CODEC.decode(bytes.fromhex(m)).repair_request]
    assert requests
    js("receive", message=requests[0])
    assert js.told("sds:repair:request-received")
    repaired: list[str] = []
    while not repaired:
        repaired = js("sweep_repair")["messages"]
    effects = ours.receive(repaired[0])
    assert [e.message.message_id for e in effects if isinstance(e, fx.Logged)] == [
        lost["id"],
        child["id"],
    ]
    assert ours.log == js("log")["ids"]


def test_ephemeral_messages_of_theirs(js: JsPeer) -> None:
    ours = Ours()
    effects = ours.receive(js("ephemeral", content=b"typing".hex())["message"])
    assert [e.message.content for e in effects if isinstance(e, fx.DeliverEphemeral)] == [b"typing"]


# Bugs of the package


def test_js_bug_children_are_delivered_before_their_parents(js: JsPeer) -> None:
    """A message that waits in the buffer counts as an available dependency."""
    ours = Ours()
    ours.send(b"one")
    two, data_two = ours.send(b"two")
    three = CODEC.encode(
        Message(
            sender_id="other",
            message_id="three",
            channel_id="0",
            lamport=1_760_000_009_000,
            causal_history=(HistoryEntry(two),),
            content=b"answers two",
        )
    )
    js("receive", message=data_two)
    js("receive", message=three[0].hex())
    assert js.told("sds:in:message-delivered") == ["three"]  # before its dependency two
    theirs = Ours("py-2")
    theirs.receive(data_two)
    theirs.receive(three[0].hex())
    assert theirs.log == []


def test_js_bug_duplicates_are_delivered_again(js: JsPeer) -> None:
    ours = Ours()
    message_id, data = ours.send(b"x")
    js("receive", message=data)
    js("receive", message=data)
    assert js.told("sds:in:message-delivered") == [message_id, message_id]


def test_js_bug_ephemeral_messages_vanish(js: JsPeer) -> None:
    message = Message(message_id="e", channel_id="0", sender_id="py", content=b"typing")
    assert js("receive", message=CODEC.encode(message)[0].hex()) == {}
    assert js.events == []


def test_js_bug_equal_payloads_are_one_message(js: JsPeer) -> None:
    first, second = js("send", content="aa"), js("send", content="aa")
    assert first["id"] == second["id"]
    assert len(js("log")["ids"]) == 1


@pytest.mark.parametrize("size", [0, 632])
def test_js_bug_a_filter_of_another_size_costs_the_message(js: JsPeer, size: int) -> None:
    """So our default of 632 bytes can't be used with it: PARAMS here has its fixed size."""
    message = Message(
        message_id="m",
        channel_id="0",
        sender_id="py",
        lamport=1,
        content=b"x",
        bloom_filter=bytes(size),
    )
    js("send", content="aa")  # it only looks at filters when it waits for something
    js("receive", message=CODEC.encode(message)[0].hex())
    assert js.told("sds:in:message-delivered") == []
    assert js.told("sds:error-task")


def test_js_bug_the_largest_clock_wraps_around(js: JsPeer) -> None:
    poison = Message(
        message_id="m", channel_id="0", sender_id="py", lamport=2**64 - 1, content=b"x"
    )
    data = CODEC.encode(poison)[0].hex()
    js("receive", message=data)
    assert CODEC.decode(bytes.fromhex(js("send", content="aa")["message"])).lamport == 0
    ours = Ours()
    ours.receive(data)
    _, after = ours.send(b"ours")
    lamport = CODEC.decode(bytes.fromhex(after)).lamport
    assert lamport < 2**62


def test_js_bug_an_all_ones_filter_acknowledges_everything(js: JsPeer) -> None:
    sent = [js("send", content=f"{n:02x}")["id"] for n in range(3)]
    for n in range(2):
        message = Message(
            message_id=f"m{n}",
            channel_id="0",
            sender_id="mallory",
            lamport=1,
            content=b"x",
            bloom_filter=b"\xff" * 18_752,
        )
        js("receive", message=CODEC.encode(message)[0].hex())
    assert js.told("sds:out:message-acknowledged") == sent


def test_js_bug_repair_is_asked_for_once(js: JsPeer) -> None:
    ours = Ours()
    ours.send(b"lost")
    _, data = ours.send(b"child")
    js("receive", message=data)
    asked = 0
    for _ in range(200):
        sync = js("sync")["message"]
        asked += bool(sync and CODEC.decode(bytes.fromhex(sync)).repair_request)
    assert asked == 1
    theirs = Ours("py-2")
    theirs.receive(data)
    syncs = [CODEC.decode(bytes.fromhex(m)) for m in theirs.wait(60.0)]
    assert sum(bool(m.repair_request) for m in syncs) > 1
