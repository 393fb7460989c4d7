"""A group in which some members lie, with proofs as signatures give them.

A liar's words count as its own. It speaks under many names, names ids that nobody has, sends two
histories of a message, drives clocks to their limit, says that logs are equal and that it purged
what it is asked for, or answers one message at a time as late as it may.
"""

from __future__ import annotations

import random
from dataclasses import replace

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Response
from episub_router.sds.protocol.message import HistoryEntry, Message
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.ranges import LogComparison
from tests.sds.harness import CHANNEL, Group, Links, Member

DAY = 86_400_000
ALL = (2**64 - 1, "z")
_LIARS_AT_ONCE = 3
"""For five honest messages. So a liar speaks more than twice as often as an honest member."""


class LiarsGroup(Group):
    """The first `liars` members of the group lie; nothing of theirs is counted.

    `near`: for how many others a member has direct streams, on average; None is for all.
    """

    def __init__(
        self,
        size: int,
        liars: int,
        *,
        seed: int,
        links: Links,
        skew: float,
        params: SdsParams,
        near: int | None = None,
    ) -> None:
        self._near = None if near is None else ring_and_more(size, near, random.Random(seed))
        super().__init__(size, seed=seed, links=links, skew=skew, params=params)
        names = sorted(self.members)
        self.liars = names[:liars]
        self.honest = names[liars:]
        self._lies = 0
        for name in names:
            self.crash(name)
            self.start(name)
        for name in self.liars[::2]:
            self.slow[name] = 9.0

    def _linked(self, a: str, b: str) -> bool:
        return super()._linked(a, b) and (self._near is None or frozenset((a, b)) in self._near)

    def _delivered(self, member: Member, message: Message) -> None:
        # One whose only peers are liars would say what they made of it.
        if self._near is None or member.name in self.honest:
            super()._delivered(member, message)

    def lie(self) -> None:
        """The next liars, at most `_LIARS_AT_ONCE`, say something."""
        for _ in range(min(_LIARS_AT_ONCE, len(self.liars))):
            name = self.liars[self._lies % len(self.liars)]
            self._lies += 1
            alias = f"{name} as {self._lies % 7}"
            wall = int((self.now + self.members[name].offset) * 1000)
            content = b"lie %d" % self._lies
            lamport = wall + DAY - 1 if self._lies % 3 == 0 else wall
            first = Message(
                sender_id=alias,
                channel_id=CHANNEL,
                lamport=lamport,
                causal_history=(HistoryEntry(f"{self._lies:064x}"),),
                content=content,
                gaps=(self.rng.choice(list(self.sent_at)),) if self.sent_at else (),
            )
            second = replace(first, causal_history=())
            for other in self.members:
                version = first if self.rng.random() < 0.5 else second
                raw, message_id = self.codec.encode(version)
                version = replace(version, message_id=message_id)
                if other != name and self.rng.random() >= self.links.loss:
                    self._later(self._delay(), self._arrival(name, other, version, raw))

    def _answer(self, asker: str, ask: fx.Ask) -> Response:
        if ask.peer not in self.liars or ask.peer in self.slow:
            return super()._answer(asker, ask)
        if isinstance(ask, fx.AskCompare):
            return Response(comparison=LogComparison(floor=ALL))
        if isinstance(ask, fx.AskIds):
            return Response(unknown_ids=ask.ids, gone=ALL)
        return Response()

    def complete(self) -> bool:
        """Whether all honest members have all that honest members sent."""
        return all(
            all(i in member.participant.log for i in self.sent_at)
            for name in self.honest
            if (member := self.members[name]).participant is not None
        )


def ring_and_more(size: int, near: int, rng: random.Random) -> set[frozenset[str]]:
    """Pairs of members: a ring, and others at random until each has `near` on average."""
    names = [f"member-{i:02}" for i in range(size)]
    pairs = {frozenset((names[i], names[(i + 1) % size])) for i in range(size)}
    while len(pairs) < size * near / 2:
        pairs.add(frozenset(rng.sample(names, 2)))
    return pairs


def honest_run(
    size: int,
    messages: int,
    *,
    seed: int,
    loss: float = 0.1,
    kills: bool = True,
    near: int | None = None,
) -> LiarsGroup:
    """Honest members talk among one liar in five, with clocks 5 s apart, and are killed.

    Raises AssertionError where an honest message is not delivered, is delivered twice or before
    what its author had seen, or the total order contradicts that.
    """
    params = SdsParams(lost_after=120.0)
    links = Links(loss=loss)
    group = LiarsGroup(size, size // 5, seed=seed, links=links, skew=5.0, params=params, near=near)
    group.run(3.0)
    writers = group.rng.sample(group.honest, len(group.honest))
    for n in range(messages):
        # Each has written before any writes again at random.
        writer = writers[n] if n < len(writers) else group.rng.choice(group.honest)
        group.send(writer, b"%d" % n)
        if n % 5 == 0:
            group.lie()
        group.run(group.rng.expovariate(size / 10))
        if kills and n % 7 == 3:
            victim = group.rng.choice(group.honest)
            group.crash(victim)
            group.start(victim)
    for _ in range(1200):
        if group.complete():
            break
        group.run(1.0)
    assert group.complete(), "honest messages are missing after 20 minutes"
    assert not group.truth.violations, group.truth.violations[:3]
    assert not group.truth.duplicates, group.truth.duplicates[:3]
    for name in group.honest:
        participant = group.members[name].participant
        wrong = group.truth.order(participant.log.places())
        assert not wrong, wrong[:3]
    return group
