"""What a short message costs while nothing is missing, and that nothing is missing for it."""

from __future__ import annotations

from episub_router.sds.interop import WireFormat
from tests.sds.harness import Group
from tests.sds.one import WALL, One, made


def test_ten_bytes_in_a_quiet_group_of_fifty_cost_less_than_three_hundred() -> None:
    """Sync messages included, of which one confirms each message; without pubsub's envelope."""
    group = Group(50, seed=1)
    names = sorted(group.members)
    group.send(names[0], b"0123456789")
    group.run(120.0)
    group.bytes.clear()
    group.published.clear()
    messages = 20
    for n in range(messages):
        group.send(names[7 * n % 50], b"0123456789")
        group.run(20.0)
    assert group.settle(60.0) is not None
    group.check()
    size = sum(group.bytes.values()) / messages / 49
    # A peer id as sender has 52 characters, a name of this group 9.
    longer = (52 - len(names[0])) * (group.published["content"] + group.published["sync"])
    assert size + longer / messages < 300
    assert group.published["sync"] <= 1.8 * messages


def test_messages_of_one_author_that_follow_each_other_are_confirmed_together() -> None:
    """Nobody names one that its author's next one covers: all of fifty members confirmed it."""
    group = Group(50, seed=2)
    names = sorted(group.members)
    group.send(names[0], b"first")
    group.run(60.0)
    group.published.clear()
    for _ in range(4):
        group.send(names[7], b"0123456789")
        group.run(2.3)
    group.run(20.0)
    assert group.published["resend"] == 0
    assert group.published["sync"] <= 12


def test_members_of_other_implementations_get_history_and_filter_always() -> None:
    for wire in WireFormat:
        one = One(filters=500, wire=wire)
        one.hear("a")
        one.hear("b", "a")
        sent = one.send()[1]
        assert len(sent.causal_history) == 2
        assert sent.bloom_filter is not None


def test_an_idle_group_gets_quieter() -> None:
    group = Group(10, seed=1)
    group.send("member-00", b"the only one")
    group.run(1200.0)
    before, asked = group.published["sync"], group.requests
    group.run(3600.0)
    assert group.published["sync"] - before <= 40
    assert group.requests - asked <= 10 * 3600 / 60 / 8 * 2


def test_the_clock_of_the_first_schema_is_taken_nearest_to_the_time_of_day() -> None:
    one = One(filters=10)
    low = WALL & 0xFFFFFFFF
    lamport = low if low < 2**31 else low | 0xFFFFFFFF_00000000
    raw = one.codec.encode(made("from seed", lamport=lamport, sender_id=""))[0]
    one.take(one.codec.decode(raw))
    assert one.participant.log.places() == [(WALL, "from seed")]
