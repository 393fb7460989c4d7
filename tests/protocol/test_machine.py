"""Hypothesis drives a small network through joins, leaves, crashes, loss and publishing."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from episub_router.protocol.params import EpisubParams, MembershipParams
from tests.protocol.network import Network

NODES = 10
nodes = st.integers(0, NODES - 1)
# Views small against the network, so that bounds are met all the time.
PARAMS = EpisubParams(
    membership=MembershipParams(active_size=3, random_links=2, near_links=1, passive_size=5)
)


class Overlay(RuleBasedStateMachine):
    """Whatever happens, bounds hold; once it is quiet, so does the rest."""

    @initialize(seed=st.integers(0, 2**16))
    def start(self, seed: int) -> None:
        rng = Random(seed)
        distances: dict[frozenset[int], float] = {}

        def delay(a: int, b: int) -> float:
            return distances.setdefault(frozenset((a, b)), rng.uniform(0.001, 0.15))

        self.network = Network(NODES, PARAMS, seed, delay)
        self.loss = Random(seed)
        self.published = 0
        self.network.join_all()
        self.network.run(5)

    def member(self, node: int) -> bool:
        return self.network.topics[node].membership.joined and node not in self.network.dead

    @rule(node=nodes, contact=nodes)
    def join(self, node: int, contact: int) -> None:
        self.network.join(node, *({contact, 0} - {node}))

    @rule(node=st.integers(1, NODES - 1), proof=st.sampled_from([b"", b"p"]))
    def leave(self, node: int, proof: bytes) -> None:
        self.network.leave(node, proof)

    @rule(node=st.integers(1, NODES - 1))
    def crash(self, node: int) -> None:
        self.network.kill([node])

    @rule(node=st.integers(1, NODES - 1))
    def restart(self, node: int) -> None:
        if node in self.network.dead:
            self.network.run(1)
            self.network.dead.discard(node)
            self.network.add(node)
            self.network.join(node, 0)

    @rule(node=nodes)
    def publish(self, node: int) -> None:
        if self.member(node):
            self.network.publish(node, self.published)
            self.published += 1

    @rule(share=st.sampled_from([0.0, 0.1, 0.5]))
    def lose(self, share: float) -> None:
        self.network.cut = lambda a, b: self.loss.random() < share

    @rule(a=nodes, b=nodes)
    def drop_connection(self, a: int, b: int) -> None:
        pair = frozenset((a, b))
        if pair in self.network.connections:
            self.network.disconnect(a, b)

    @rule(seconds=st.sampled_from([0.01, 0.3, 3.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.network.run(seconds)

    @invariant()
    @precondition(lambda self: hasattr(self, "network"))
    def bounds_hold(self) -> None:
        params = PARAMS.membership
        for node, topic in self.network.topics.items():
            membership, tree = topic.membership, topic.broadcast
            active, passive = set(membership.active), set(membership.passive)
            assert len(active) <= params.active_bound
            assert len(passive) <= params.passive_size
            assert not active & passive
            assert node not in active | passive
            assert set(tree.eager) | set(tree.lazy) == active
            assert not set(tree.eager) & set(tree.lazy)
        for id, counts in self.network.delivered.items():
            assert all(times == 1 for times in counts.values()), f"{id} delivered twice: {counts}"

    def teardown(self) -> None:
        if not hasattr(self, "network"):
            return
        network = self.network
        network.cut = lambda a, b: False
        network.run(200)
        members = [node for node in network.live if self.member(node)]
        if len(members) > 1 and not network.neighbors(0):
            # The contact of everybody has none itself, and whichever node has links enough asks
            # its contacts ever more rarely.
            network.run(600)
        for node in network.live:
            assert self.member(node) or not network.neighbors(node)
        if network.one_sided():
            network.run(1)  # A link may just be in exchange, for some journeys of up to 0.15 s.
        assert network.one_sided() == []
        network.publish(0, "last")
        network.run(10)
        reached, frontier = {0}, [0]
        while frontier:
            new = network.neighbors(frontier.pop()) - reached
            reached |= new
            frontier += new
        assert set(network.delivered["last"]) == reached
        if len(members) > 1:
            assert len(reached) > 1, "the contact of everybody is alone"
        for node in members:
            assert network.topics[node].broadcast.missing == 0


TestOverlay = pytest.mark.slow(Overlay.TestCase)
TestOverlay.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
