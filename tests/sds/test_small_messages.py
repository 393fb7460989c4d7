"""What a short message costs while nothing is missing, and that nothing is missing for it."""

from __future__ import annotations

from episub_router.sds.protocol.params import SdsParams, WireFormat
from tests.sds.harness import Group, Links
from tests.sds.one import WALL, One, made


def test_ten_bytes_in_a_quiet_group_of_fifty_cost_less_than_five_hundred() -> None:
    """Sync messages included, of which one confirms each message; without pubsub's envelope. It was
    7,324, and with some seeds still 552: members that never spoke weren't counted as speakers."""
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
    assert size + longer / messages < 460
    assert group.published["sync"] <= 1.6 * messages


def test_messages_say_more_when_something_is_missing() -> None:
    one = One()
    one.hear("a")
    one.hear("b", "a")
    sent = one.send()[1]
    assert ([e.message_id for e in sent.causal_history], sent.bloom_filter) == (["b"], None)
    one.hear("c", "unknown")
    sent = one.send()[1]
    assert len(sent.causal_history) == 3
    assert sent.bloom_filter is not None
    one.hear("unknown")
    assert one.send()[1].bloom_filter is not None
    one.wait(100.0)
    assert one.send()[1].bloom_filter is None


def test_members_of_other_implementations_get_history_and_filter_always() -> None:
    for params in ({"compact": False}, {"wire": WireFormat.SEED}):
        one = One(**params)
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


def test_current_and_seed_members_order_alike() -> None:
    group = Group(3, seed=5, links=Links(loss=0.1))
    seed_member = group.members["member-01"]
    group.crash("member-01")
    group.params, normal = SdsParams(wire=WireFormat.SEED), group.params
    group.start("member-01")
    group.params = normal
    for n in range(30):
        group.send(f"member-{n % 3:02}", b"%d" % n)
        group.run(1.0)
    assert group.settle(300.0) is not None
    group.check()
    assert seed_member.participant is not None
    assert min(key[0] for key in seed_member.participant.log.places()) > 2**32


def test_a_current_member_takes_the_clock_of_the_first_schema_nearest_to_its_own() -> None:
    one = One()
    low = WALL & 0xFFFFFFFF
    lamport = low if low < 2**31 else low | 0xFFFFFFFF_00000000
    one.take(made("from seed", lamport=lamport, seed=True))
    assert one.participant.log.places() == [(WALL, "from seed")]
