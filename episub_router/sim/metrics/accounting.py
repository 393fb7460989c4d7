"""Every (message, live node) pair is delivered, or has a named reason why not."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import Enum

from episub_router.sim.records import NEVER_DELIVERED, Ending, MessageRecord, Records, Session


class MissingReason(Enum):
    """Why a node that was there when a message was published doesn't have it."""

    CRASHED = "crashed"
    """It crashed before the message's time was up. Not live; doesn't count in reliability."""
    LEFT = "left"
    """It left before the message's time was up. Not live either."""
    PARTITIONED = "partitioned"
    """It was cut off from the source."""
    SOURCE_ISOLATED = "source-isolated"
    """The source had no neighbour to send it to."""
    ISOLATED = "isolated"
    """It had no neighbour for some of the time in which the message spread."""
    UNREACHABLE = "unreachable"
    """There was no path to it over the overlay when the message was published, or when that was
    next looked at: with the next message, or at the end of its phase."""
    LOST_IN_TRANSIT = "lost-in-transit"
    """The network lost a copy or an announcement on its way to it."""
    GIVEN_UP = "given-up"
    """Its router declared a message lost after all its retries."""
    WITHHELD = "withheld"
    """None of these, but there were hostile nodes to withhold it."""
    UNEXPLAINED = "unexplained"
    """None of these: a fault of the protocol or of the simulator."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One partition: the nodes in `side` were apart from all others."""

    start: float
    end: float
    side: dict[int, int]


@dataclass(frozen=True, slots=True)
class Islands:
    """The overlay's components at one time: a label for each live node; none if there is one
    component."""

    time: float
    label: dict[int, int]

    def apart(self, a: int, b: int) -> bool:
        """Whether two nodes that were live were in different components."""
        return (
            self.label.get(a, -1) != self.label.get(b, -1) and a in self.label and b in self.label
        )


@dataclass(slots=True)
class Verdict:
    """One message's balance: `live` = `delivered` + the missing whose reason isn't absence.

    `served` has a 1 for each node, by id, that was expected to deliver and did: nodes that
    came later, and got the message from their new neighbours, aren't in it.
    """

    served: bytearray

    live: int = 0
    delivered: int = 0
    missing: dict[MissingReason, int] = field(default_factory=dict)


class Accountant:
    """Accounts for each message of a run at its honest nodes.

    `patience` is the time that a message is given, in s; `hostile_from` when the first hostile node
    strikes.
    """

    def __init__(
        self,
        records: Records,
        cuts: list[Cut],
        islands: list[Islands],
        patience: float,
        hostile_from: float = float("inf"),
    ) -> None:
        self._records = records
        self._cuts = cuts
        self._islands = islands
        self._looks = [look.time for look in islands]
        self._patience = patience
        self._hostile_from = hostile_from
        self._given_up = {id(session): session.given_up for session in records.sessions}
        self._by_node: dict[int, list[Session]] = {}
        for session in records.sessions:
            self._by_node.setdefault(session.node, []).append(session)

    def settle(self, message: int) -> Verdict:
        """The balance of message number `message`. Each message is to be settled once."""
        record = self._records.messages[message]
        verdict = Verdict(bytearray(len(record.delivered)))
        time, deadline = record.published, record.published + self._patience
        source_isolated = self._source_isolated(record)
        for session in self._records.sessions:
            if session.hostile:
                continue
            # A node that has been up for long enough counts even without a neighbour.
            expected = min(session.joined, session.started + self._patience)
            if not expected <= time < session.ended:
                continue
            if record.delivered[session.node] != NEVER_DELIVERED:
                verdict.live += 1
                verdict.delivered += 1
                verdict.served[session.node] = 1
                continue
            if session.ended <= deadline:
                crashed = session.ending is Ending.CRASHED
                reason = MissingReason.CRASHED if crashed else MissingReason.LEFT
            else:
                verdict.live += 1
                reason = (
                    MissingReason.SOURCE_ISOLATED
                    if source_isolated
                    else self._reason(message, record, session)
                )
            verdict.missing[reason] = verdict.missing.get(reason, 0) + 1
        return verdict

    def _reason(self, message: int, record: MessageRecord, session: Session) -> MissingReason:
        node, time = session.node, record.published
        deadline = time + self._patience
        for cut in self._cuts:
            if (
                cut.start < deadline
                and time < cut.end
                and cut.side.get(node, 0) != cut.side.get(record.source, 0)
            ):
                return MissingReason.PARTITIONED
        alone = any(start < deadline and time < end for start, end in session.alone)
        if alone or session.joined > time:
            return MissingReason.ISOLATED
        after = bisect_right(self._looks, time)
        around = self._islands[max(0, after - 1) : after + 1]
        if any(islands.apart(node, record.source) for islands in around):
            return MissingReason.UNREACHABLE
        if (message, node) in self._records.lost_on_the_way:
            return MissingReason.LOST_IN_TRANSIT
        if self._given_up[id(session)] > 0:
            self._given_up[id(session)] -= 1
            return MissingReason.GIVEN_UP
        return (
            MissingReason.WITHHELD if deadline >= self._hostile_from else MissingReason.UNEXPLAINED
        )

    def _source_isolated(self, record: MessageRecord) -> bool:
        for session in self._by_node.get(record.source, ()):
            if session.started <= record.published < session.ended:
                return session.joined > record.published or any(
                    start <= record.published < end for start, end in session.alone
                )
        return False
