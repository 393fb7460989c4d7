"""Any sequence of losses, partitions and crashes ends with equal logs, once it is quiet."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from episub_router.sds.protocol.params import LostPolicy, SdsParams
from tests.sds.harness import Group, Links

SIZE = 5
NAMES = [f"member-{i:02}" for i in range(SIZE)]
names = st.sampled_from(NAMES)


class GroupMachine(RuleBasedStateMachine):
    """Logs never shrink, deliveries never repeat, and after quiet everyone has everything."""

    group: Group

    @initialize(
        seed=st.integers(0, 2**32),
        streams=st.booleans(),
        skew=st.sampled_from([0.0, 600.0]),
    )
    def begin(self, seed: int, streams: bool, skew: float) -> None:
        params = SdsParams(
            on_lost=LostPolicy.HOLD,
            page_items=3,
            repair=not streams,
        )
        self.group = Group(SIZE, seed=seed, params=params, links=Links(streams=streams), skew=skew)
        self.clocks = dict.fromkeys(NAMES, 0)

    @rule(name=names, count=st.integers(1, 5))
    def send(self, name: str, count: int) -> None:
        for _ in range(count):
            self.group.send(name, b"content")

    @rule(seconds=st.sampled_from([0.05, 0.5, 5.0, 60.0]))
    def run(self, seconds: float) -> None:
        self.group.run(seconds)

    @rule(loss=st.sampled_from([0.0, 0.1, 0.3, 0.9]), duplication=st.sampled_from([0.0, 0.5]))
    def links(self, loss: float, duplication: float) -> None:
        self.group.links.loss = loss
        self.group.links.duplication = duplication

    @rule(slowest=st.sampled_from([0.1, 3.0, 20.0]))
    def reorder(self, slowest: float) -> None:
        self.group.links.delay = (0.01, slowest)

    @rule(islands=st.lists(st.integers(0, 2), min_size=SIZE, max_size=SIZE))
    def part(self, islands: list[int]) -> None:
        self.group.part(dict(zip(NAMES, islands, strict=True)))

    @rule()
    def heal(self) -> None:
        self.group.heal()

    @precondition(lambda self: any(m.participant for m in self.group.members.values()))
    @rule(name=names)
    def crash(self, name: str) -> None:
        if self.group.members[name].participant is not None:
            self.group.crash(name)

    @rule(name=names)
    def restart(self, name: str) -> None:
        if self.group.members[name].participant is None:
            self.group.start(name)

    @invariant()
    def clocks_never_go_back(self) -> None:
        for name, member in self.group.members.items():
            if member.participant is not None:
                assert member.participant.clock.value >= self.clocks[name]
                log = member.participant.log
                self.clocks[name] = max((log.key(i)[0] for i in member.sent if i in log), default=0)

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        for name, member in self.group.members.items():
            if member.participant is None:
                self.group.start(name)
        self.group.links.loss = 0.0
        self.group.links.delay = (0.01, 0.1)
        self.group.heal()
        assert self.group.settle(1200.0) is not None, "logs still differ after 20 quiet minutes"
        self.group.check()
        for member in self.group.members.values():
            assert not len(member.participant.incoming)


GroupMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGroup = pytest.mark.slow(GroupMachine.TestCase)
