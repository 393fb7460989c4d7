"""Promises, kept and broken; and that a peer which only is slow breaks none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from episub_router.protocol import standing as rules
from episub_router.protocol.effects import DownReason, NeighborDown, NeighborUp
from episub_router.protocol.messages import Gossip, Graft, IHave, LinkKind
from episub_router.protocol.plumtree.state import (
    LONGEST_BACKLOG,
    MAX_PROMISES,
    SILENCE,
    NeighborRecord,
)
from episub_router.protocol.standing import Standings
from tests.protocol.helpers import Branch, ihave, sent


def test_a_promise_is_kept_once() -> None:
    link = NeighborRecord("a")
    link.ask("m", 0.0)
    assert not link.keep("n", 1.0)
    assert link.keep("m", 1.0)
    assert not link.keep("m", 1.0)
    assert link.count_broken(1000.0) == 0


def test_silence_breaks_it_and_each_counts_once() -> None:
    link = NeighborRecord("a")
    link.ask("m", 0.0)
    link.ask("n", 1.0)
    assert link.count_broken(SILENCE) == 0
    assert link.count_broken(SILENCE + 0.1) == 1
    assert link.count_broken(SILENCE + 1.1) == 1
    assert link.count_broken(1000.0) == 0


def test_one_that_broke_a_promise_is_doubted_until_it_keeps_one_in_time() -> None:
    link = NeighborRecord("a")
    link.ask("m", 0.0)
    assert not link.unanswered(0.5, 1.0)
    assert link.unanswered(2.0, 1.0)
    assert link.count_broken(20.0) == 1
    assert link.unanswered(20.0, 1.0)
    assert not link.keep("another", 21.0)
    assert link.unanswered(21.0, 1.0)
    link.ask("n", 22.0)
    assert link.keep("n", 23.0)
    assert link.unanswered(23.0, 1.0)
    link.ask("o", 24.0)
    assert link.keep("o", 24.1)
    assert not link.unanswered(24.1, 1.0)


def test_an_answer_in_time_excuses_those_owed_before_it() -> None:
    """Where frames are lost, one in ten answers doesn't come: no two in a row, mostly."""
    link = NeighborRecord("a")
    for second, id in enumerate("mno"):
        link.ask(id, second)
    assert link.unanswered(3.0, 0.2) == 3
    assert link.keep("n", 1.2)
    assert link.unanswered(3.0, 0.2) == 1
    link.ask("p", 3.0)
    assert link.unanswered(4.0, 0.2) == 2
    link.keep("pushed", LONGEST_BACKLOG)
    assert link.count_broken(1.0 + LONGEST_BACKLOG) == 1
    assert link.unanswered(1.0 + LONGEST_BACKLOG, 0.2) == 2


def test_a_peer_that_sends_has_a_backlog_but_not_for_ever() -> None:
    link = NeighborRecord("a")
    link.ask("m", 0.0)
    for second in range(5, 60, 5):
        link.keep(second, float(second))
        assert link.count_broken(float(second)) == 0
    link.keep(60, 60.0)
    assert link.count_broken(LONGEST_BACKLOG + 0.1) == 1


def test_promises_of_one_peer_are_bounded() -> None:
    link = NeighborRecord("a")
    for id in range(2 * MAX_PROMISES):
        link.ask(id, 0.0)
    link.count_broken(1000.0)
    kept = [id for id in range(2 * MAX_PROMISES) if link.keep(id, 1000.0)]
    assert kept == []
    for id in range(2 * MAX_PROMISES):
        link.ask(id, 1000.0)
    kept = [id for id in range(2 * MAX_PROMISES) if link.keep(id, 1000.0)]
    assert kept == list(range(MAX_PROMISES))


def test_what_breaks_together_is_one_piece_of_evidence() -> None:
    """A neighbour that is behind by 15 seconds is bad, and no liar; one that is by thirty is
    condemned."""
    link, standings = NeighborRecord("a"), Standings()
    condemned_at = []
    for second in range(60):
        now = float(second)
        for id in range(20):
            link.ask((second, id), now)
        for _ in range(link.count_broken(now)):
            standings.add("a", rules.BROKEN_PROMISE, now)
        if second <= 20:
            assert standings.is_bad("a", now) == (now > SILENCE)
        if standings.of("a", now) < rules.BAN_BELOW:
            condemned_at.append(second)
    assert condemned_at[0] > 2 * SILENCE


def test_a_liar_is_asked_last_then_beside_another_and_gets_no_tree() -> None:
    branch = Branch(lazy=["liar", "honest"])
    asked = []
    for id in range(20):
        branch.receive("liar", ihave(id))
        branch.receive("honest", ihave(id))
        for _ in range(8):
            grafts = sent(branch.wait(0.25), Graft)
            asked += [(peer, id) for peer, graft in grafts if id in graft.ids]
            if ("honest", id) in asked:
                branch.receive("honest", Gossip(id, 1, "payload"))
                break
    assert [peer for peer, id in asked if id == 0] == ["liar", "honest"]
    assert next(peer for peer, id in asked if id == 1) == "honest"
    for n in range(20):
        branch.receive("liar", ihave(("n", n)))
        branch.wait(1)
    branch.wait(15)
    assert branch.machine.standings.is_bad("liar", branch.now)
    branch.receive("liar", ihave("last"))
    branch.receive("honest", ihave("last"))
    first = sent(branch.wait(0.6), Graft)[0]
    assert first == ("honest", Graft(("last",)))
    assert branch.machine.condemned(branch.now) == ["liar"]


def test_a_liar_is_asked_first_once_and_not_again_after_its_promise_is_given_up() -> None:
    branch = Branch(lazy=["liar", "honest"])
    asked = []
    for id in ("first", "second"):
        branch.receive("liar", ihave(id))
        branch.receive("honest", ihave(id))
        asked.append(sent(branch.wait(0.5), Graft)[0])
        branch.receive("honest", Gossip(id, 1, "payload"))
        branch.wait(2 * SILENCE)
        assert not branch.machine.standings.is_bad("liar", branch.now)
    assert asked == [("liar", Graft(("first",))), ("honest", Graft(("second",)))]


def test_a_bad_peer_is_asked_beside_another() -> None:
    branch = Branch(lazy=["a", "b", "c"])
    for peer in "ab":
        branch.machine.standings.set(peer, -20.0)
        branch.receive(peer, ihave("m"))
    assert sent(branch.wait(0.1), Graft) == [("a", Graft(("m",))), ("b", Graft(("m",)))]
    for peer in "abc":
        branch.receive(peer, ihave("n"))
    assert [peer for peer, graft in sent(branch.wait(0.1), Graft) if "n" in graft.ids] == ["c"]


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(1e6, 1e8),
    rtt=st.floats(0.001, 1.0),
    ids=st.lists(
        st.tuples(st.floats(0.0, 3.0), st.integers(100, 2**20), st.booleans()),
        min_size=1,
        max_size=40,
    ),
    known_rtt=st.booleans(),
)
def test_a_peer_that_answers_within_its_backlog_never_has_a_bad_standing(
    rate: float, rtt: float, ids: list[tuple[float, int, bool]], known_rtt: bool
) -> None:
    """A slow link, filled with other messages, too, and the same asked for several times; what
    there is no room for is announced again, as drivers do."""
    branch = Branch("fast", lazy=["slow"])
    if known_rtt:
        branch.rtts["slow"] = rtt
    sizes: dict[object, int] = {}
    queue: list[tuple[float, Gossip | IHave]] = []
    free_at = 0.0

    def put(message: Gossip | IHave, size: int) -> None:
        nonlocal free_at
        free_at = max(free_at, branch.now) + size * 8 / rate
        queue.append((free_at + rtt, message))

    def serve(grafts: list[tuple[object, Graft]]) -> None:
        for peer, graft in grafts:
            for id in graft.ids if peer == "slow" else ():
                if free_at - branch.now > LONGEST_BACKLOG / 4:
                    put(ihave(id), 100)
                else:
                    put(Gossip(id, 2, "payload"), sizes[id])

    def run(until: float) -> None:
        while True:
            arrives = queue[0][0] if queue else until
            due = min(branch.machine.next_deadline(), arrives, until)
            branch.now = max(branch.now, due)
            serve(sent(branch.machine.handle_timer(branch.now), Graft))
            assert not branch.machine.standings.is_bad("slow", branch.now)
            if queue and queue[0][0] <= branch.now:
                serve(sent(branch.receive("slow", queue.pop(0)[1]), Graft))
            elif due >= until:
                return

    for n, (gap, size, comes_by_itself) in enumerate(ids):
        run(branch.now + gap)
        sizes[n] = size
        branch.receive("slow", ihave(n))
        if comes_by_itself:
            branch.receive("fast", Gossip(n, 1, "payload"))
            put(Gossip(("other", n), 1, "payload"), size)
    run(branch.now + 200)


def test_a_liar_that_links_anew_is_banned_all_the_same() -> None:
    """What it owed when its link ended is owed when it is back."""
    branch = Branch(lazy=["liar", "honest"])
    for round in range(12):
        for n in range(8):
            branch.receive("liar", ihave((round, n)))
        branch.wait(12)
        if branch.machine.condemned(branch.now) == ["liar"]:
            return
        branch.handle(NeighborDown("liar", DownReason.ENDED))
        branch.handle(NeighborUp("liar", LinkKind.RANDOM))
    raise AssertionError


def test_one_that_answers_late_is_asked_after_others() -> None:
    branch = Branch(lazy=["late", "honest"])
    branch.receive("late", ihave("m"))
    branch.wait(0.6)
    branch.receive("late", Gossip("m", 1, "payload"))
    for peer in ("late", "honest"):
        branch.receive(peer, ihave("n"))
    assert sent(branch.wait(0.1), Graft) == [("honest", Graft(("n",)))]
