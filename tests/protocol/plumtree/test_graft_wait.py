"""The learned waits between an announcement and its GRAFT (E34)."""

from __future__ import annotations

import pytest

from episub_router.protocol.plumtree.graft_wait import FIRST_LAG, GraftWait
from episub_router.protocol.plumtree.message_cache import GossipMessage
from episub_router.protocol.plumtree.neighbor_record import NeighborRecord


class Waits:
    """A `GraftWait` with the links to the neighbours that a test names."""

    def __init__(self) -> None:
        self.wait = GraftWait()
        self.links: dict[str, NeighborRecord] = {}

    def link(self, peer: str) -> NeighborRecord:
        return self.links.setdefault(peer, NeighborRecord(peer, 0.0))

    def add_standby(self, peer: str) -> None:
        self.link(peer).lag = FIRST_LAG

    def after_announcement(self, peer: str, now: float) -> float:
        return self.wait.after_announcement(self.link(peer), now)

    def note_known(self, peer: str) -> None:
        self.wait.note_known(self.link(peer))

    def note_first_copy(self, peer: str, message: GossipMessage, at: float) -> None:
        message.sender, message.arrived_at = peer, at
        self.wait.note_first_copy(message, None, self.link(str(message.informant)))

    def note_pushed_copy(self, message: GossipMessage, at: float) -> None:
        self.wait.note_pushed_copy(message, at, self.link(str(message.informant)))


def missing(first: str, *, asked: tuple[str, ...] = (), at: float = 0.0) -> GossipMessage:
    """A message that `first` announced at time `at`, and that `asked` were asked for."""
    message = GossipMessage("m")
    message.informant, message.announced_at = first, at
    message.asked = [(peer, at) for peer in asked]
    return message


def pull(wait: Waits, times: int) -> None:
    """Announcer "a" had to be asked, `times` times."""
    for _ in range(times):
        wait.note_first_copy("a", missing("a", asked=("a",)), 1.0)


def congested(answer: float, late: float) -> Waits:
    """Answers take `answer` seconds, and copies come `late` after standby "a" announced them."""
    wait = Waits()
    wait.add_standby("a")
    for _ in range(100):
        wait.note_first_copy("b", missing("b", asked=("b",)), answer)
        wait.note_pushed_copy(missing("a"), late)
    return wait


def test_at_first_the_wait_is_short() -> None:
    assert Waits().after_announcement("a", 0.0) == pytest.approx(0.02)


def test_messages_that_only_come_when_asked_for_shorten_the_wait() -> None:
    """Down to a least wait, in which copies that are in flight arrive."""
    wait = Waits()
    before = wait.after_announcement("a", 0.0)
    pull(wait, 1)
    assert wait.after_announcement("a", 0.0) == pytest.approx(0.8 * before)
    pull(wait, 100)
    assert wait.after_announcement("a", 0.0) == pytest.approx(0.01)


def test_a_message_that_comes_by_itself_just_after_the_graft_lengthens_the_wait() -> None:
    """Had we waited as long, it would have cost one copy less; never above a second."""
    wait = Waits()
    wait.note_pushed_copy(missing("a", asked=("a",)), 0.05)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.25 * 0.05)
    for _ in range(20):
        late = 2 * wait.after_announcement("a", 0.0)
        wait.note_pushed_copy(missing("a", asked=("a",)), late)
    assert wait.after_announcement("a", 0.0) == 1.0


@pytest.mark.parametrize(
    ("asked", "late"),
    [
        (("a",), 0.061),  # waiting for it would have been no good: over 2 x 20 + 20 ms
        (("a",), 0.019),  # within the wait: it was another message's turn that asked
        ((), 0.05),  # not asked for: it cost nothing
    ],
)
def test_other_copies_leave_the_wait_as_it_is(asked: tuple[str, ...], late: float) -> None:
    wait = Waits()
    wait.note_pushed_copy(missing("a", asked=asked), late)
    assert wait.after_announcement("b", 0.0) == pytest.approx(0.02)


def test_lateness_counts_from_the_first_announcement() -> None:
    wait = Waits()
    wait.note_pushed_copy(missing("a", asked=("a",), at=10.0), 10.05)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.25 * 0.05)


def test_a_first_copy_that_wasn_t_asked_for_counts_as_pushed() -> None:
    """The neighbour that was asked isn't the one that brought it."""
    wait = Waits()
    wait.note_first_copy("parent", missing("a", asked=("a",)), 0.05)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.25 * 0.05)


def test_a_standby_s_wait_follows_its_own_lag() -> None:
    """1.2 times the lag and 5 ms; one standby's lag changes neither another's nor the others'
    wait."""
    wait = Waits()
    for peer in ("a", "b"):
        wait.add_standby(peer)
        assert wait.after_announcement(peer, 0.0) == pytest.approx(1.2 * 0.02 + 0.005)
    for _ in range(40):
        wait.note_pushed_copy(missing("a"), 0.1)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.2 * 0.1 + 0.005, rel=0.01)
    assert wait.after_announcement("b", 0.0) == pytest.approx(1.2 * 0.02 + 0.005)
    assert wait.after_announcement("other", 0.0) == pytest.approx(0.02)


def test_a_constant_lag_is_not_exceeded() -> None:
    """Once it is learned, a message that comes as late as ever isn't asked for."""
    wait = Waits()
    wait.add_standby("a")
    for _ in range(20):
        wait.note_pushed_copy(missing("a"), 0.08)
    for _ in range(100):
        assert wait.after_announcement("a", 0.0) > 0.08
        wait.note_pushed_copy(missing("a"), 0.08)


def test_a_standby_s_lag_is_bounded() -> None:
    wait = Waits()
    wait.add_standby("a")
    for _ in range(100):
        wait.note_pushed_copy(missing("a"), 4.9)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.2 * 0.5 + 0.005)


def test_where_answers_take_long_a_lag_may_be_as_long() -> None:
    """Queues are long then, and what is asked for waits in them behind what comes by itself. Once
    answers aren't known any more, the usual bound holds again."""
    wait = congested(4.0, 4.9)
    assert wait.after_announcement("a", 4.9) == pytest.approx(1.2 * 4.0 + 0.005)
    assert wait.after_announcement("a", 35.0) == pytest.approx(1.2 * 0.5 + 0.005)


def test_answers_that_take_for_ever_keep_nobody_waiting_for_more_than_five_seconds() -> None:
    wait = congested(60.0, 60.0)
    assert wait.after_announcement("a", 60.0) == pytest.approx(1.2 * 5.0 + 0.005)
    assert wait.wait.patience(None, 60.0) == 5.0
    assert wait.wait.until_lost(60.0) == 15.0


def test_a_message_is_given_up_after_five_seconds_or_three_answers_time() -> None:
    wait = Waits()
    assert wait.wait.until_lost(0.0) == 5.0
    for _ in range(100):
        wait.note_first_copy("b", missing("b", asked=("b",)), 3.0)
    assert wait.wait.until_lost(3.0) == pytest.approx(9.0, rel=0.01)
    assert wait.wait.until_lost(34.0) == 5.0


def test_a_standby_that_is_slower_than_the_parent_is_asked_soon() -> None:
    """It announces what is here already: its lag falls, until a message fails to come."""
    wait = Waits()
    wait.add_standby("a")
    for _ in range(100):
        wait.note_known("a")
    assert wait.after_announcement("a", 0.0) < 0.006
    wait.note_known("other")
    assert wait.after_announcement("other", 0.0) == pytest.approx(0.02)


def test_a_small_lag_is_learned_downwards_slowly() -> None:
    """One message that comes early says little about the next."""
    wait = Waits()
    wait.add_standby("a")
    wait.note_pushed_copy(missing("a"), 0.0)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.2 * 0.95 * 0.02 + 0.005)


def test_pulled_copies_leave_lags_as_they_are() -> None:
    """When it would have come by itself isn't known then."""
    wait = Waits()
    wait.add_standby("a")
    pull(wait, 5)
    assert wait.after_announcement("a", 0.0) == pytest.approx(1.2 * 0.02 + 0.005)
