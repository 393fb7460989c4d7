"""A group of participants over simulated links: deterministic, on virtual time.

Every publish reaches every other member unless it's lost; direct streams fail only across a
partition or when a member is down. A crash keeps what the store has and nothing else.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from episub_router.protocol.types import NEVER
from episub_router.sds.interop import Interop
from episub_router.sds.net.exchange import look_up
from episub_router.sds.net.limiter import RequestLimiter
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Effect, Response
from episub_router.sds.protocol.entry import StoredMessage
from episub_router.sds.protocol.message import Message, MessageId, ReceivedMessage, Way
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from episub_router.sds.wire.codec import Codec
from episub_router.sds.wire.exchange import Request, encode_request, encode_response
from tests.sds.happened_before import HappenedBefore

CHANNEL = "0"
OFFSET = 1_760_000_000.0


@dataclass
class Links:
    """How the simulated network behaves. Delays in seconds."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: tuple[float, float] = (0.05, 0.5)
    streams: bool = True
    rate: float = 0.0
    """Bytes per second at which answers on direct streams leave a member; 0 is no limit."""


@dataclass
class Member:
    """A participant, what its application saw, and what survives a crash."""

    name: str
    store: SqliteStore
    offset: float
    participant: Participant | None = None
    life: int = 0
    doomed: bool = False
    delivered: list[MessageId] = field(default_factory=list)
    sent: list[MessageId] = field(default_factory=list)
    notices: list[Effect] = field(default_factory=list)
    drops: Counter[str] = field(default_factory=Counter)


class Group:
    """The members, the clock and the links."""

    def __init__(
        self,
        size: int,
        *,
        seed: int,
        params: SdsParams | None = None,
        links: Links | None = None,
        skew: float = 0.0,
        store: Callable[[], SqliteStore] = MemoryStore,
        interop: Interop | None = None,
    ) -> None:
        self.now = 1000.0
        self.rng = random.Random(seed)
        self.links = links or Links()
        self.params = params or SdsParams(repair=not self.links.streams)
        self.interop = interop
        self.codec = self._codec()
        self.members: dict[str, Member] = {}
        self.islands: dict[str, int] = {}
        self.history: dict[MessageId, tuple[MessageId, ...]] = {}
        self.sent_at: dict[MessageId, float] = {}
        self.delays: list[float] = []
        self.truth = HappenedBefore()
        self.join_last: dict[str, int] = {}
        """Members that take only so many of the messages there are when they join."""
        self.join_snapshot: dict[str, int] = {}
        """Members that take a snapshot of so many signers when they join."""
        self.requests = 0
        self.kills = 0
        self.limiter = RequestLimiter()
        self.slow: dict[str, float] = {}
        """Seconds that members take to answer one message at a time."""
        self.bytes: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._free_at: dict[str, float] = {}
        self._deadlines: dict[str, float] = {}
        self._timers: list[tuple[float, str]] = []
        self._touched: set[str] = set()
        """Members of which the deadline may be another one since it was looked at."""
        for i in range(size):
            name = f"member-{i:02}"
            offset = OFFSET + self.rng.uniform(-skew, skew)
            self.members[name] = Member(name, store(), offset)
            self.islands[name] = 0
            self.start(name)

    def _codec(self) -> Codec:
        if self.interop is None:
            return Codec(self.params)
        return self.interop.codec(self.params, lambda: int((self.now + OFFSET) * 1000))

    # What a test does

    def start(self, name: str) -> None:
        member = self.members[name]
        saved = member.store.load(CHANNEL, name, self.params.log_limit)
        member.life += 1
        member.participant = Participant(
            name,
            CHANNEL,
            self.params,
            codec=self._codec(),
            dialect=self.interop.dialect() if self.interop else None,
            rng=random.Random(self.rng.getrandbits(64)),
            now=self.now,
            wall_offset=member.offset,
            restored=saved,
            join_last=self.join_last.get(name),
            join_snapshot=self.join_snapshot.get(name),
        )
        self._meet(name)

    def crash(self, name: str) -> None:
        self.members[name].participant = None
        self._touched.update(self.members)
        for other in self.members.values():
            if other.participant is not None:
                other.participant.peer_down(name, self.now)

    def send(self, name: str, content: bytes) -> MessageId | None:
        member = self.members[name]
        if member.participant is None:
            return None
        message_id, effects = member.participant.send(content, self.now)
        if member.doomed and self.rng.random() < 0.5:
            self._die(member)
            return None
        member.sent.append(message_id)
        self.sent_at[message_id] = self.now
        for effect in effects:
            if isinstance(effect, fx.Logged):
                self.history[message_id] = tuple(effect.message.history_ids)
        clock = member.participant.log.key(message_id)[0]
        self.truth.sent(name, message_id, clock)
        self._carry_out(member, effects)
        return message_id

    def doom(self, name: str) -> None:
        """Kill a member in its next step, before or after its commit; it comes back at once."""
        self.members[name].doomed = True

    def _die(self, member: Member) -> None:
        member.doomed = False
        self.kills += 1
        self.crash(member.name)
        self._later(self.rng.uniform(0.01, 2.0), lambda: self.start(member.name))

    def part(self, islands: dict[str, int]) -> None:
        """Separate members into islands; None of them hears another island."""
        self.islands.update(islands)
        for a in self.members:
            for b, member in self.members.items():
                if member.participant is not None and not self._linked(a, b):
                    member.participant.peer_down(a, self.now)

    def heal(self) -> None:
        self.islands = dict.fromkeys(self.members, 0)
        for name in self.members:
            self._meet(name)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        self._touched.update(self.members)
        while True:
            timer, name = self._next_timer(end + 1)
            event = self._queue[0][0] if self._queue else end + 1
            if min(timer, event) > end:
                self.now = end
                return
            if event <= timer:
                at, _, action = heapq.heappop(self._queue)
                self.now = max(self.now, at)
                action()
            else:
                self.now = max(self.now, timer)
                member = self.members[name]
                if member.participant is not None:
                    self._carry_out(member, member.participant.poll(self.now))

    def _next_timer(self, default: float) -> tuple[float, str]:
        """The earliest deadline of a member, and whose it is."""
        for name in self._touched:
            participant = self.members[name].participant
            deadline = participant.deadline() if participant is not None else NEVER
            if deadline != self._deadlines.get(name):
                self._deadlines[name] = deadline
                heapq.heappush(self._timers, (deadline, name))
        self._touched.clear()
        while self._timers and self._timers[0][0] != self._deadlines[self._timers[0][1]]:
            heapq.heappop(self._timers)
        return min(self._timers[0], (default, "")) if self._timers else (default, "")

    def settle(self, limit: float) -> float | None:
        """Run until all logs are equal; seconds taken, or None if they aren't after `limit`."""
        start = self.now
        while self.now - start < limit:
            if self.converged():
                return self.now - start
            self.run(1.0)
        return None

    def holders(self, name: str, message_id: MessageId) -> tuple[str, ...]:
        """The members that have a message of this one, as far as it knows."""
        participant = self.members[name].participant
        own = participant.outgoing.get(message_id)
        return participant.outgoing.holders(own)

    def converged(self) -> bool:
        logs = [m.participant.log.places() for m in self.members.values() if m.participant]
        return all(log == logs[0] for log in logs) and len(logs[0]) == len(self.sent_at)

    def check(self) -> None:
        """No causal violation, no duplicate, nothing lost, one order."""
        assert not self.truth.violations, self.truth.violations[:3]
        assert not self.truth.duplicates, self.truth.duplicates[:3]
        everything = set(self.sent_at)
        for member in self.members.values():
            seen: set[MessageId] = set()
            own = {i for m in [member] for i in m.sent}
            for message_id in member.delivered:
                assert message_id not in seen, f"{member.name} got {message_id} twice"
                late = [h for h in self.history[message_id] if h not in seen | own]
                assert not late, f"{member.name} got {message_id} before {late}"
                seen.add(message_id)
            assert seen | own == everything, f"{member.name} lacks {len(everything - seen - own)}"
        assert self.converged()
        for member in self.members.values():
            if member.participant is not None:
                wrong = self.truth.order(member.participant.log.places())
                assert not wrong, wrong[:3]
                break

    # Links

    def _linked(self, a: str, b: str) -> bool:
        up = self.members[a].participant is not None and self.members[b].participant is not None
        return a != b and up and self.islands[a] == self.islands[b]

    def _meet(self, name: str) -> None:
        self._touched.add(name)
        if not self.links.streams:
            return
        self._touched.update(self.members)
        for other, member in self.members.items():
            mine = self.members[name].participant
            if self._linked(name, other) and mine is not None and member.participant is not None:
                mine.peer_up(other, self.now)
                member.participant.peer_up(name, self.now)

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, action))

    def _delay(self) -> float:
        return self.rng.uniform(*self.links.delay)

    def _carry_out(self, member: Member, effects: list[Effect]) -> None:
        self._touched.add(member.name)
        if not effects:
            return
        doomed = member.doomed
        if doomed:
            self._die(member)
            sent = fx.Purpose.CONTENT in [e.purpose for e in effects if hasattr(e, "purpose")]
            if not sent and self.rng.random() < 0.5:
                return
        changes = [e for e in effects if isinstance(e, fx.Change)]
        if changes:
            member.store.commit(CHANNEL, changes)
        if doomed:
            # The application reads what was delivered from the store, after the restart.
            effects = [e for e in effects if isinstance(e, fx.Logged)]
        for effect in effects:
            match effect:
                case fx.BroadcastBytes(raw=raw, purpose=purpose):
                    self._publish(member.name, raw, purpose.value)
                case fx.Rebroadcast(message_id=message_id):
                    for stored in member.store.get(CHANNEL, [message_id]):
                        self._publish(member.name, stored.raw, "repair")
                case fx.Logged(message=message) if message.message_id not in member.sent:
                    self._delivered(member, message)
                case fx.AskIds() | fx.AskCompare() | fx.AskRange() | fx.AskSnapshot():
                    self._ask(member.name, effect)
                case fx.Discarded(reason=reason):
                    member.drops[reason.value] += 1
                case fx.DeliverEphemeral():
                    pass
                case _:
                    if not isinstance(effect, fx.Change):
                        member.notices.append(effect)

    def _delivered(self, member: Member, message: Message) -> None:
        member.delivered.append(message.message_id)
        self.truth.delivered(member.name, message.message_id)
        if message.message_id in self.sent_at:
            self.delays.append(self.now - self.sent_at[message.message_id])

    def _publish(self, name: str, raw: bytes, purpose: str) -> None:
        message = self._authored(self.codec.decode(raw), name)
        self.published[purpose] += 1
        for other in self.members:
            if other == name:
                continue
            copies = 1 + (self.rng.random() < self.links.duplication)
            for _ in range(copies):
                self.bytes[purpose] += len(raw)
                if self.rng.random() >= self.links.loss:
                    self._later(self._delay(), self._arrival(name, other, message, raw))

    def arrive(self, source: str, target: str, message: Message, raw: bytes) -> None:
        """A broadcast of `source` reaches `target` now, whatever the links are."""
        member = self.members[target]
        received = ReceivedMessage(message, raw, Way.BROADCAST, source)
        self._carry_out(member, member.participant.receive(received, self.now))

    def _arrival(
        self, source: str, target: str, message: Message, raw: bytes
    ) -> Callable[[], None]:
        life = self.members[target].life

        def arrive() -> None:
            member = self.members[target]
            if member.participant is None or member.life != life:
                return
            if self.islands[source] != self.islands[target]:
                return
            received = ReceivedMessage(message, raw, Way.BROADCAST, source)
            self._carry_out(member, member.participant.receive(received, self.now))

        return arrive

    def _ask(self, asker: str, ask: fx.Ask) -> None:
        self.requests += 1
        self.bytes["pull"] += len(encode_request(Request("t", CHANNEL, ask)))
        life = self.members[asker].life

        def reach() -> None:
            if not self._linked(asker, ask.peer):
                self._later(self._delay(), lambda: self._fail(asker, life, ask))
                return
            wait = self.limiter.wait(f"{asker}-{ask.peer}", self.now)
            if wait:
                self._later(max(wait, 0.001), reach)  # milliseconds, as on the wire
                return
            size = self.bytes["pull"]
            answer = self._answer(asker, ask)
            size = self.bytes["pull"] - size
            slow = self.slow.get(ask.peer)
            delay = slow if slow is not None else self._delay() + self._queued(ask.peer, size)
            self._later(delay, lambda: self._answered(asker, life, ask, answer))

        self._later(self._delay(), reach)

    def _queued(self, name: str, size: int) -> float:
        """Seconds until an answer of `size` bytes has left a member."""
        if not self.links.rate:
            return 0.0
        free_at = max(self.now, self._free_at.get(name, 0.0)) + size / self.links.rate
        self._free_at[name] = free_at
        return free_at - self.now

    def _fail(self, asker: str, life: int, ask: fx.Ask) -> None:
        participant = self.members[asker].participant
        if participant is not None and self.members[asker].life == life:
            participant.failed(ask, self.now)
            self._touched.add(asker)

    def _answer(self, asker: str, ask: fx.Ask) -> Response:
        member = self.members[ask.peer]
        params = self.params
        if ask.peer in self.slow:
            params = replace(params, page_items=1)
        if isinstance(ask, fx.AskCompare):
            asked, stored = replace(ask, peer=asker), member.store.count(CHANNEL)
            response = Response(comparison=member.participant.compare(asked, stored, self.now))
        else:
            ids = ask.ids if isinstance(ask, fx.AskIds) else ()
            waiting = member.participant.waiting(ids)
            signers = ask.signers if isinstance(ask, fx.AskSnapshot) else 1
            agreed = member.participant.snapshots.agreed(signers)
            response = look_up(member.store, CHANNEL, params, ask, waiting, agreed)
        self.bytes["pull"] += len(encode_response(response))
        return response

    def _answered(self, asker: str, life: int, ask: fx.Ask, response: Response) -> None:
        member = self.members[asker]
        if member.participant is None or member.life != life:
            return
        effects = member.participant.answered(ask, response, self._accept, self.now)
        self._carry_out(member, effects)

    def _accept(self, item: StoredMessage, peer: str) -> ReceivedMessage:
        message = self._authored(self.codec.decode(item.raw), peer)
        return ReceivedMessage(message, item.raw, Way.RELAYED, peer)

    def _authored(self, message: Message, name: str) -> Message:
        """The first schema has no sender: the carrier says who it is, as its proof does."""
        author = self.truth.author(message.message_id) or name
        return message if message.sender_id else replace(message, sender_id=author)


def converge(
    size: int,
    messages: int,
    loss: float,
    *,
    streams: bool,
    seed: int,
    skew: float = 600.0,
    kind: Callable[..., Group] = Group,
    params: SdsParams | None = None,
) -> tuple[Group, float]:
    """Let a group of a `kind` talk, wait until it's quiet: the group, and how long it took (s).

    A message per second and 10 members. Raises AssertionError where a guarantee doesn't hold.
    """
    links = Links(loss=loss, streams=streams)
    group = kind(size, seed=seed, links=links, skew=skew, params=params)
    names = sorted(group.members)
    for _ in range(messages):
        group.send(group.rng.choice(names), group.rng.randbytes(50))
        group.run(group.rng.expovariate(size / 10))
    settled = group.settle(1800.0)
    assert settled is not None, "not converged after 30 minutes"
    group.check()
    return group, settled
