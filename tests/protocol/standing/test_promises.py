"""Promises, kept and broken; and that a peer which only is slow breaks none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from episub_router.protocol.messages import Gossip, Graft, IHave
from episub_router.protocol.standing import Promises, Standings, rules
from episub_router.protocol.standing.promises import MAX_PROMISES
from tests.protocol.helpers import Branch, ihave, sent


def test_a_promise_is_kept_once() -> None:
    promises = Promises()
    promises.ask("a", "m", 0.0)
    assert not promises.keep("a", "n", 1.0)
    assert not promises.keep("b", "m", 1.0)
    assert promises.keep("a", "m", 1.0)
    assert not promises.keep("a", "m", 1.0)
    assert promises.broken(1000.0) == []


def test_silence_breaks_it_and_each_counts_once() -> None:
    promises = Promises()
    promises.ask("a", "m", 0.0)
    promises.ask("a", "n", 1.0)
    assert promises.broken(rules.SILENCE) == []
    assert promises.broken(rules.SILENCE + 0.1) == ["a"]
    assert promises.broken(rules.SILENCE + 1.1) == ["a"]
    assert promises.broken(1000.0) == []


def test_one_that_broke_a_promise_is_doubted_until_it_sends_a_payload() -> None:
    promises = Promises()
    promises.ask("a", "m", 0.0)
    assert not promises.is_late("a", 0.5, patience=1.0)
    assert promises.is_late("a", 2.0, patience=1.0)
    assert promises.broken(20.0) == ["a"]
    assert promises.is_late("a", 20.0, patience=1.0)
    assert not promises.keep("a", "another", 21.0)
    assert not promises.is_late("a", 21.0, patience=1.0)


def test_a_peer_that_sends_has_a_backlog_but_not_for_ever() -> None:
    promises = Promises()
    promises.ask("a", "m", 0.0)
    for second in range(5, 60, 5):
        promises.keep("a", second, float(second))
        assert promises.broken(float(second)) == []
    promises.keep("a", 60, 60.0)
    assert promises.broken(rules.LONGEST_BACKLOG + 0.1) == ["a"]


def test_one_that_announces_again_had_no_room() -> None:
    promises = Promises()
    promises.ask("a", "m", 0.0)
    promises.renew("a", "m", 9.0)
    promises.renew("a", "n", 9.0)
    assert promises.broken(rules.SILENCE + 5) == []
    assert promises.broken(rules.SILENCE + 9.1) == ["a"]


def test_a_peer_that_is_gone_owes_nothing() -> None:
    promises = Promises()
    promises.ask("a", "m", 0.0)
    promises.forget("a")
    assert promises.broken(1000.0) == []


def test_promises_of_one_peer_are_bounded() -> None:
    promises = Promises()
    for id in range(2 * MAX_PROMISES):
        promises.ask("a", id, 0.0)
    promises.broken(1000.0)
    kept = [id for id in range(2 * MAX_PROMISES) if promises.keep("a", id, 1000.0)]
    assert kept == []
    for id in range(2 * MAX_PROMISES):
        promises.ask("a", id, 1000.0)
    kept = [id for id in range(2 * MAX_PROMISES) if promises.keep("a", id, 1000.0)]
    assert kept == list(range(MAX_PROMISES))


def test_what_breaks_together_is_one_piece_of_evidence() -> None:
    """A neighbour that is behind by 15 seconds is bad, and no liar; one that is by thirty is
    condemned."""
    promises, standings = Promises(), Standings()
    condemned_at = []
    for second in range(60):
        now = float(second)
        for id in range(20):
            promises.ask("a", (second, id), now)
        for peer in promises.broken(now):
            standings.add(peer, rules.BROKEN_PROMISE, now)
        if second <= 20:
            assert standings.is_bad("a", now) == (now > rules.SILENCE)
        if standings.of("a", now) < rules.BAN_BELOW:
            condemned_at.append(second)
    assert condemned_at[0] > 2 * rules.SILENCE


def test_what_broke_shortly_before_counts_among_it() -> None:
    promises = Promises()
    promises.ask("a", "stray", 0.0)
    for id in range(100):
        promises.ask("a", id, rules.SILENCE - 0.5)
    charged = sum(len(promises.broken(tenth / 10)) for tenth in range(150, 301))
    assert charged == rules.BROKEN_AT_ONCE


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
        branch.wait(2 * rules.SILENCE)
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
                if free_at - branch.now > rules.LONGEST_BACKLOG / 4:
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
