"""Whatever is lost, late or reordered, whichever nodes crash: each source has one tree in the end.

`TREE_MODEL_EXAMPLES` in the environment sets how many random overlays are run (default 200,
about 5 s of CPU).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import combinations, count
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from episub_router.protocol import events as ev
from episub_router.protocol.effects import (
    Deliver,
    DownReason,
    Effect,
    NeighborDown,
    NeighborUp,
    Send,
)
from episub_router.protocol.messages import Gossip, Graft, LinkKind
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.plumtree.lazy_push import ANNOUNCE_WINDOW
from episub_router.protocol.plumtree.tree import Tree

EXAMPLES = int(os.environ.get("TREE_MODEL_EXAMPLES", "200"))
SAME = "TREE_MODEL_EXAMPLES" not in os.environ
"""Whether the overlays are the same in each run."""

PARAMS = BroadcastParams()
TWO_PARENTS = BroadcastParams(parents=2)
DELAYS = (0.001, 0.002, 0.005, 0.02, 0.04, 0.09)
"""Seconds that a link takes."""
Link = tuple[int, int]


class Overlay:
    """Plumtree machines over fixed links. A message takes a link's delay, up to `jitter` times
    longer, so that messages overtake each other, unless they come `in_order`; a share `loss` of
    them is lost. Without `timers` none ever fires."""

    def __init__(
        self,
        links: dict[Link, float],
        seed: int = 0,
        jitter: float = 0.0,
        loss: float = 0.0,
        params: BroadcastParams = PARAMS,
        *,
        in_order: bool = False,
        timers: bool = True,
    ) -> None:
        self.links = {**links, **{(b, a): delay for (a, b), delay in links.items()}}
        self.jitter, self.loss = jitter, loss
        self.in_order, self.timers = in_order, timers
        self.now = 0.0
        self.rng = Random(seed)
        self.dead: set[int] = set()
        self.delivered: dict[object, set[int]] = {}
        self.pushes: Counter[object] = Counter()
        self.pulls: Counter[object] = Counter()
        self._order = count()
        self._queue: list[tuple[float, int, int, Any]] = []
        self._last: dict[Link, float] = {}
        nodes = sorted({node for link in links for node in link})
        self.machines = {
            node: Plumtree(params, Random(seed + node), partial(self._rtt, node)) for node in nodes
        }
        for node, peer in sorted(self.links):
            self._handle(node, NeighborUp(peer, LinkKind.RANDOM))

    def _rtt(self, node: int, peer: Any) -> float | None:
        return 2 * self.links[node, peer] if (node, peer) in self.links else None

    @property
    def live(self) -> list[int]:
        return [node for node in self.machines if node not in self.dead]

    def neighbors(self, node: int) -> list[int]:
        return [b for a, b in self.links if a == node and b not in self.dead]

    def connected_without(self, node: int) -> bool:
        left = {other for other in self.live if other != node}
        if not left:
            return False
        reached, frontier = set(), [min(left)]
        while frontier:
            at = frontier.pop()
            if at in left and at not in reached:
                reached.add(at)
                frontier += self.neighbors(at)
        return reached == left

    def crash(self, node: int) -> None:
        """`node` stops; each neighbour notices after a time of its own."""
        self.dead.add(node)
        for peer in self.neighbors(node):
            after = self.rng.choice((0.01, 0.1, 2.0))
            self.at(self.now + after, peer, NeighborDown(node, DownReason.FAILED))

    def break_link(self, a: int, b: int) -> None:
        """The link ends on both sides, and comes back after a while."""
        for node, peer in ((a, b), (b, a)):
            self.at(self.now + 0.1 * self.rng.random(), node, NeighborDown(peer, DownReason.ENDED))
            up = NeighborUp(peer, LinkKind.RANDOM)
            self.at(self.now + 0.3, node, up)

    def publish(self, source: int, id: object, *, author: bool = True) -> None:
        """Of no `author` it goes along the shared tree."""
        self._handle(source, ev.Publish(id, "payload", 7, source if author else None))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.now, _, node, what = heappop(self._queue)
            if node in self.dead:
                continue
            if isinstance(what, tuple):
                peer, message = what
                self._perform(node, self.machines[node].receive(peer, message, self.now))
            elif what is None:
                if self.machines[node].next_deadline() <= self.now:
                    self._perform(node, self.machines[node].handle_timer(self.now))
            elif not (isinstance(what, NeighborUp) and what.peer in self.dead):
                self._handle(node, what)
        self.now = end

    def at(self, time: float, node: int, what: Any) -> None:
        heappush(self._queue, (time, next(self._order), node, what))

    def _handle(self, node: int, what: Any) -> None:
        self._perform(node, self.machines[node].handle(what, self.now))

    def _perform(self, node: int, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                got = self.delivered.setdefault(effect.id, set())
                assert node not in got, f"{effect.id} delivered twice at {node}"
                got.add(node)
            elif isinstance(effect, Send):
                self._send(node, effect)
        deadline = self.machines[node].next_deadline()
        if self.timers and deadline < float("inf"):
            self.at(max(deadline, self.now), node, None)

    def _send(self, node: int, effect: Send) -> None:
        peer, message = effect.peer, effect.message
        if isinstance(message, Gossip):
            self.pushes[message.id] += 1
        elif isinstance(message, Graft):
            self.pulls.update(message.ids)
        assert isinstance(peer, int)
        if self.rng.random() >= self.loss:
            at = self.now + self.links[node, peer] * (1 + self.jitter * self.rng.random())
            if self.in_order:
                at = self._last[node, peer] = max(at, self._last.get((node, peer), 0.0))
            self.at(at, peer, (node, message))

    def tree(self, node: int, source: int) -> Tree:
        tree = self.machines[node].trees.get(source)
        assert tree is not None, f"{node} knows no tree of {source}"
        return tree


@dataclass(frozen=True)
class Plan:
    """An overlay and what happens in it: per step a pause, and which source publishes, which node
    crashes, which link breaks."""

    links: dict[Link, float]
    sources: list[int]
    steps: list[tuple[float, str, int]]
    seed: int
    jitter: float
    loss: float


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    size = draw(st.integers(5, 12))
    pairs = list(combinations(range(size), 2))
    tree = {(draw(st.integers(0, node - 1)), node) for node in range(1, size)}
    more = draw(st.sets(st.sampled_from(pairs), max_size=2 * size))
    links = {link: draw(st.sampled_from(DELAYS)) for link in sorted(tree | more)}
    pause = st.sampled_from((0.0, 0.003, 0.02, 0.1, 0.5, 2.0, 5.0))
    what = st.sampled_from(("publish",) * 6 + ("crash", "break"))
    steps = draw(st.lists(st.tuples(pause, what, st.integers(0, 35)), max_size=25))
    return Plan(
        links,
        sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=4))),
        steps,
        draw(st.integers(0, 2**16)),
        draw(st.sampled_from((0.0, 0.1, 1.0))),
        draw(st.sampled_from((0.0, 0.0, 0.05, 0.3))),
    )


def disturb(overlay: Overlay, plan: Plan) -> None:
    """Run the steps; crashes leave the overlay connected and one source alive."""
    for number, (pause, what, which) in enumerate(plan.steps):
        overlay.run(pause)
        node = which % len(overlay.machines)
        if what == "publish":
            source = plan.sources[which % len(plan.sources)]
            if source not in overlay.dead:
                overlay.publish(source, f"{number} of {source}")
        elif what == "break":
            a, b = sorted(plan.links)[which % len(plan.links)]
            # A node that has just joined doesn't pass on what it had to ask for.
            if overlay.now > 2 * ANNOUNCE_WINDOW and not {a, b} & overlay.dead:
                overlay.break_link(a, b)
        elif (
            node not in overlay.dead and node != plan.sources[0] and overlay.connected_without(node)
        ):
            overlay.crash(node)


def calm_down(overlay: Overlay, sources: Iterable[int]) -> None:
    """No more faults; messages go on until each source has sent another ROOT."""
    overlay.loss = overlay.jitter = 0.0
    overlay.run(3)
    for number, pause in enumerate((2, 2, 2, 21, 2, 2, 2, 2)):
        for source in sources:
            overlay.publish(source, f"calm {number} of {source}")
            overlay.run(0.05)
        overlay.run(pause)
    overlay.run(5)


def check_tree(overlay: Overlay, source: int) -> None:
    """The parents are one tree over the live nodes, whose ends agree about each link, as those of
    second parents do."""
    live = overlay.live
    parents = {node: overlay.tree(node, source).parent for node in live}
    children = {node: set(overlay.tree(node, source).children) for node in live}
    note(f"tree of {source}: parents {parents}, children {children}")
    for node in live:
        pushers = [other for other in live if node in children[other]]
        if node == source:
            assert parents[node] is None
            assert pushers == []
            continue
        expected = overlay.tree(node, source).parents
        assert {*pushers} == {*expected}, f"{node} is pushed to by {pushers}, not {expected}"
        seen, at = {node}, node
        while at != source:
            at = parents[at]  # type: ignore[assignment]
            assert at in live, f"{node} has the dead parent {at}"
            assert at not in seen, f"the parents of {node} form a cycle"
            seen.add(at)


def check_in_the_end(overlay: Overlay, plan: Plan) -> None:
    """After what `plan` does, nothing is missed, asked for or waited for any more."""
    disturb(overlay, plan)
    sources = [source for source in plan.sources if source not in overlay.dead]
    calm_down(overlay, sources)
    live = set(overlay.live)
    event(f"{len(live)} nodes, {len(sources)} sources")
    for id, got in overlay.delivered.items():
        if got & live and (not plan.loss or str(id).startswith("calm")):
            assert live <= got, f"{id} missed by {live - got}"
    for source in sources:
        check_tree(overlay, source)
        overlay.publish(source, ("last", source))
        overlay.run(10)
        assert overlay.delivered["last", source] == live
        assert overlay.pulls["last", source] == 0
    for node in live:
        assert overlay.machines[node].missing == 0
        assert overlay.machines[node].next_deadline() == float("inf")


@pytest.mark.slow
@settings(max_examples=EXAMPLES, derandomize=SAME)
@given(plans())
def test_each_source_has_one_tree_in_the_end(plan: Plan) -> None:
    """E30-E37 for per-source trees."""
    overlay = Overlay(plan.links, plan.seed, plan.jitter, plan.loss)
    check_in_the_end(overlay, plan)
    live = overlay.live
    assert {overlay.pushes["last", source] for source in plan.sources if source in live} == {
        len(live) - 1
    }


IN_VAIN = Plan(
    links={(0, 1): 0.001, (0, 3): 0.002, (0, 5): 0.001, (1, 2): 0.002, (1, 4): 0.001,
           (1, 6): 0.09, (1, 10): 0.09, (2, 3): 0.002, (2, 4): 0.04, (2, 6): 0.02, (3, 6): 0.005,
           (4, 9): 0.001, (5, 7): 0.005, (5, 8): 0.09, (6, 9): 0.002, (7, 9): 0.04,
           (8, 10): 0.005},
    sources=[3, 10],
    steps=[(0.0, "publish", 0), (5.0, "publish", 1), (2.0, "publish", 0), (0.1, "publish", 1),
           (0.02, "break", 27), (5.0, "publish", 0), (0.0, "publish", 1), (0.1, "break", 0),
           (0.5, "publish", 0)],
    seed=3001,
    jitter=0.1,
    loss=0.3,
)  # fmt: skip


def test_nobody_asks_for_what_its_parent_is_about_to_push() -> None:
    """A node whose nearest neighbour had failed as a parent keeps a far one."""
    overlay = Overlay(IN_VAIN.links, IN_VAIN.seed, IN_VAIN.jitter, IN_VAIN.loss)
    disturb(overlay, IN_VAIN)
    calm_down(overlay, IN_VAIN.sources)
    for source in IN_VAIN.sources:
        overlay.publish(source, ("last", source))
        overlay.run(10)
    assert not any(overlay.pulls["last", source] for source in IN_VAIN.sources)


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 4, derandomize=SAME)
@given(plans())
def test_with_two_parents_each_node_has_both_where_it_can(plan: Plan) -> None:
    """Protected topics: a node to which another neighbour brought ROOT has two, unless it pushes to
    that one."""
    overlay = Overlay(plan.links, plan.seed, plan.jitter, plan.loss, TWO_PARENTS)
    check_in_the_end(overlay, plan)
    for source in set(plan.sources) & set(overlay.live):
        for node in set(overlay.live) - {source}:
            tree = overlay.tree(node, source)
            others = {*tree.offers} - {tree.parent, *tree.children} - overlay.dead
            assert len(tree.parents) == 2 or not others
            assert {*tree.parents[1:]} <= {*tree.offers}
