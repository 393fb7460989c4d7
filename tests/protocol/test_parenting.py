"""Which of two copies' links stays in the tree (E31): nearness, order, age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import combinations, count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episub_router.protocol import events as ev
from episub_router.protocol.broadcast import Broadcast
from episub_router.protocol.effects import Deliver, NeighborUp, Send
from episub_router.protocol.messages import Gossip, Graft, LinkKind, Prune
from episub_router.protocol.params import BroadcastParams
from tests.protocol.helpers import ME, Branch, ihave, sent

NEAR, FAR = 0.005, 0.080


def apart(near: float | None = NEAR, far: float | None = FAR, **changed: float) -> Branch:
    """A node with the neighbours "near" and "far", whose round trips take that long."""
    branch = Branch("near", "far", params=BroadcastParams(**changed))  # type: ignore[arg-type]
    branch.handle(ev.RttMeasured("near", near))
    branch.handle(ev.RttMeasured("far", far))
    return branch


def test_the_near_neighbour_s_copy_makes_it_the_parent() -> None:
    """It came right after the far one's, from a node that is ahead of us."""
    branch = apart()
    branch.receive("far", Gossip("m", 3, "payload"))
    branch.wait(0.004)
    assert branch.receive("near", Gossip("m", 2, "payload")) == [Send("far", Prune())]
    assert (branch.eager, branch.lazy) == ({"near"}, {"far"})
    assert set(branch.machine.tree.parents) == {"near"}


def test_a_copy_that_came_while_the_first_was_validated_makes_it_the_parent_too() -> None:
    branch = apart()
    branch.handle(ev.PayloadArrived("far", "m", 3))
    branch.handle(ev.PayloadArrived("near", "m", 2))
    effects = branch.handle(ev.PayloadAccepted("far", "m", "payload"))
    assert sent(effects) == [("far", Prune())]


@pytest.mark.parametrize(
    ("near", "far", "after"),
    [
        (NEAR, FAR, 0.006),  # too late
        (0.021, FAR, 0.0),  # not near enough
        (None, FAR, 0.0),  # nobody knows how near
        (NEAR, None, 0.0),
    ],
)
def test_otherwise_the_first_copy_makes_the_parent(
    near: float | None, far: float | None, after: float
) -> None:
    branch = apart(near, far)
    branch.receive("far", Gossip("m", 3, "payload"))
    branch.wait(after)
    assert branch.receive("near", Gossip("m", 2, "payload")) == [Send("near", Prune())]
    assert branch.eager == {"far"}


def test_a_link_made_while_its_rtt_was_known_can_be_the_better_one() -> None:
    branch = apart(near=None)
    branch.handle(NeighborUp("nearer", LinkKind.NEAR, NEAR))
    branch.receive("far", Gossip("m", 3, "payload"))
    assert branch.receive("nearer", Gossip("m", 2, "payload")) == [Send("far", Prune())]


@pytest.mark.parametrize(("hops", "peer"), [(4, "near"), (9, "near"), (3, "zoe")])
def test_who_is_behind_decides_about_the_link(hops: int, peer: str) -> None:
    """Our copy is on its way to who got it in more hops, or in as many with a greater id: it may
    choose us. If it doesn't it prunes."""
    branch = apart()
    branch.handle(NeighborUp(peer, LinkKind.NEAR, NEAR))
    branch.receive("far", Gossip("m", 2, "payload"))
    assert peer > ME
    assert branch.receive(peer, Gossip("m", hops, "payload")) == []
    assert peer in branch.eager
    branch.receive(peer, Prune())
    assert peer in branch.lazy


def test_of_equals_the_smaller_id_is_ahead() -> None:
    branch = apart()
    branch.handle(NeighborUp("ann", LinkKind.NEAR, NEAR))
    branch.receive("far", Gossip("m", 2, "payload"))
    assert branch.receive("ann", Gossip("m", 3, "payload")) == [Send("far", Prune())]


def test_a_copy_that_did_not_cross_ours_prunes() -> None:
    """The link came after we had pushed the message: its other end gets no copy to decide on."""
    branch = apart()
    branch.receive("far", Gossip("m", 2, "payload"))
    branch.wait(0.001)
    branch.handle(NeighborUp("new", LinkKind.NEAR, NEAR))
    assert branch.receive("new", Gossip("m", 9, "payload")) == [Send("new", Prune())]


def test_without_a_window_every_duplicate_prunes() -> None:
    """As in Plumtree."""
    branch = apart(near_parent_window=0)
    branch.receive("far", Gossip("m", 2, "payload"))
    assert branch.receive("near", Gossip("m", 9, "payload")) == [Send("near", Prune())]


@pytest.mark.parametrize("hops", [0, -1, 2**31])
def test_impossible_hops_win_no_parenthood(hops: int) -> None:
    branch = apart()
    branch.receive("far", Gossip("m", 3, "payload"))
    branch.receive("near", Gossip("m", hops, "payload"))
    assert "far" in branch.eager


def test_a_copy_that_was_asked_for_cuts_nothing() -> None:
    """Who got a message by announcement and GRAFT, a second after us, pushes it on to us; the
    next one may well come first along that link. Who is lazy here must be told so again."""
    branch = Branch("a", "b", lazy=["c"])
    branch.receive("a", Gossip("m", 1, "payload"))
    branch.wait(branch.params.soonest_repair)
    assert branch.receive("b", Gossip("m", 1, "payload")) == []
    assert branch.eager == {"a", "b"}
    assert branch.receive("c", Gossip("m", 1, "payload")) == [Send("c", Prune())]


def test_who_announced_a_message_is_not_pushed_it() -> None:
    branch = Branch("a", "b", "c")
    branch.receive("b", ihave("m"))
    assert sent(branch.receive("a", Gossip("m", 1, "payload")), Gossip) == [
        ("c", Gossip("m", 2, "payload"))
    ]


@pytest.mark.parametrize(("age", "told"), [(1.0, []), (10.0, [("new", ihave("m", hops=2))])])
def test_who_has_just_come_keeps_no_old_message_going(
    age: float, told: list[tuple[str, object]]
) -> None:
    """A new neighbour is told of recent messages (E39). What was announced to one who came
    itself a second ago may be of any age; later it can only be a message that was lost."""
    branch = Branch("a", lazy=["b"])
    branch.wait(age)
    branch.receive("b", ihave("m"))
    assert sent(branch.wait(2 * branch.params.missing_tick)) == [("b", Graft(("m",)))]
    branch.receive("b", Gossip("m", 1, "payload"))
    branch.wait(0.2)
    branch.handle(NeighborUp("new", LinkKind.RANDOM))
    assert sent(branch.wait(0.2)) == told


class Wires:
    """Broadcast machines whose links take a time each; no timer ever fires."""

    def __init__(self, delays: dict[tuple[int, int], float]) -> None:
        self.delays = delays
        self.machines = {
            node: Broadcast(node, BroadcastParams(), Random(node))
            for link in delays
            for node in link
        }
        self.payloads: Counter[object] = Counter()
        self.delivered: Counter[object] = Counter()
        self._queue: list[tuple[float, int, int, int, object]] = []
        self._order = count()
        for a, b in delays:
            for node, peer in ((a, b), (b, a)):
                up = NeighborUp(peer, LinkKind.RANDOM, 2 * delays[a, b])
                self.machines[node].handle(up, 0.0)

    def publish(self, source: int, id: object, now: float) -> None:
        self._perform(source, self.machines[source].handle(ev.Publish(id, "payload", 7), now), now)
        while self._queue:
            now, _, peer, node, message = heappop(self._queue)
            effects = self.machines[node].receive(peer, message, now)  # type: ignore[arg-type]
            self._perform(node, effects, now)

    def _perform(self, node: int, effects: Sequence[object], now: float) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                self.delivered[effect.id] += 1
            elif isinstance(effect, Send):
                peer = effect.peer
                assert isinstance(peer, int)
                if isinstance(effect.message, Gossip):
                    self.payloads[effect.message.id] += 1
                delay = self.delays[min(node, peer), max(node, peer)]
                heappush(self._queue, (now + delay, next(self._order), node, peer, effect.message))


@st.composite
def worlds(draw: st.DrawFn) -> dict[tuple[int, int], float]:
    """A connected graph whose links take 1 to 4 ms, or 40 ms and a little."""
    size = draw(st.integers(2, 24))
    rng = draw(st.randoms(use_true_random=False))
    links = {(rng.randrange(node), node) for node in range(1, size)}
    others = list(combinations(range(size), 2))
    links.update(rng.sample(others, min(len(others), draw(st.integers(0, 3 * size)))))
    return {link: rng.choice((0.001, 0.002, 0.004, 0.040, 0.041, 0.044)) for link in sorted(links)}


@given(worlds(), st.integers(0, 23))
def test_what_is_left_after_one_message_is_a_tree(
    delays: dict[tuple[int, int], float], source: int
) -> None:
    """Whatever copies cross and whoever is chosen: no part is cut off, and no circle is left."""
    wires = Wires(delays)
    size = len(wires.machines)
    for id in range(3):
        wires.publish(source % size, id, 10.0 * id)
        assert wires.delivered[id] == size
    assert wires.payloads[1] == wires.payloads[2] == size - 1
    eager = [
        (node, peer) for node, machine in wires.machines.items() for peer in machine.tree.eager
    ]
    assert len(eager) == 2 * (size - 1)
    assert all((peer, node) in eager for node, peer in eager)
