"""Groups converge under loss, without a store node, with clocks 20 minutes apart."""

from __future__ import annotations

import pytest

from episub_router.sds.interop import Interop, WireFormat, js_filter
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from tests.sds.harness import Group, Links, converge
from tests.sds.over_episub import EpisubGroup


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("streams", [True, False], ids=["pull", "sds-r"])
@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3])
def test_ten_members(loss: float, streams: bool, seed: int) -> None:
    group, settled = converge(10, 60, loss, streams=streams, seed=seed)
    assert settled < 300
    for member in group.members.values():
        assert not len(member.participant.wants)


@pytest.mark.slow
def test_fifty_members_at_thirty_percent_loss() -> None:
    converge(50, 40, 0.3, streams=True, seed=1)


@pytest.mark.slow
def test_a_quiet_group_says_little() -> None:
    """About one sync message per interval and group, however large it is, and intervals grow."""
    for size in (5, 40):
        group, _ = converge(size, 5, 0.0, streams=True, seed=1)
        group.run(60.0)
        before = group.published["sync"]
        group.run(3000.0)
        assert 5 <= group.published["sync"] - before <= 60


def test_members_crash_and_come_back_from_their_files() -> None:
    group = Group(4, seed=3, links=Links(loss=0.3), store=lambda: SqliteStore(":memory:"))
    names = sorted(group.members)
    for n in range(80):
        group.send(group.rng.choice(names), b"%d" % n)
        group.run(0.3)
        if n % 10 == 5:
            group.crash(names[n // 10 % 4])
        if n % 10 == 9:
            group.start(names[n // 10 % 4])
    assert group.settle(600.0) is not None
    group.check()


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> tuple[object, ...]:
        group, settled = converge(6, 30, 0.3, streams=True, seed=9)
        return settled, group.bytes, group.published, [m.delivered for m in group.members.values()]

    assert run() == run()


def test_a_newcomer_asks_for_each_message_once() -> None:
    group = Group(2, seed=1)
    for _ in range(500):
        group.send("member-00", b"x" * 100)
    group.crash("member-01")
    group.run(200.0)
    group.members["member-01"].store = MemoryStore()
    group.bytes.clear()
    group.start("member-01")
    assert group.settle(60.0) is not None
    assert group.bytes["pull"] < 1.3 * sum(
        len(s.raw) for s in group.members["member-00"].store.page("0", None, None, 500, 10**9)[0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("streams", [True, False], ids=["pull", "sds-r"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_over_episub(loss: float, streams: bool) -> None:
    """With loss, one run in a dozen takes five minutes, whatever the trees: the middle of five
    tells."""
    settled = [
        converge(10, 40, loss, streams=streams, seed=seed, kind=EpisubGroup)[1]
        for seed in range(1, 6 if loss else 2)
    ]
    assert sorted(settled)[len(settled) // 2] < 100


@pytest.mark.slow
def test_fifty_members_over_episub() -> None:
    converge(50, 20, 0.3, streams=True, seed=1, kind=EpisubGroup)


def test_the_same_seed_gives_the_same_run_over_episub() -> None:
    def run() -> tuple[object, ...]:
        group, settled = converge(6, 20, 0.3, streams=True, seed=9, kind=EpisubGroup)
        return settled, group.bytes, group.published, [m.delivered for m in group.members.values()]

    assert run() == run()


def test_members_of_both_schemas_order_alike() -> None:
    filters = js_filter(500, 0.01)
    group = Group(6, seed=1, links=Links(loss=0.2), skew=5.0, interop=Interop(filters=filters))
    names = sorted(group.members)
    group.interop = Interop(WireFormat.SEED, filters)
    for name in names[::2]:
        group.crash(name)
        group.start(name)
    for n in range(60):
        group.send(names[n % 6], b"%d" % n)
        group.run(0.5)
    assert group.settle(300.0) is not None
    group.check()
    senders = {
        bool(group.codec.decode(s.raw).sender_id)
        for s in group.members[names[0]].store.page("0", None, None, 60, 10**9)[0]
    }
    assert senders == {True, False}  # the first schema has none
    clocks = [key[0] for m in group.members.values() for key in m.participant.log.places()]
    assert min(clocks) > 2**32  # of which it has 32 bits
