"""Missing messages: IHAVE, the GRAFT timer, and GRAFT at the receiver (E34-E37)."""

from __future__ import annotations

from episub_router.protocol.effects import DropReason
from episub_router.protocol.messages import Graft, IHave
from episub_router.protocol.plumtree.message_cache import VALIDATION_TIMEOUT, GossipMessage
from episub_router.protocol.plumtree.state import NeighborRecord, PlumtreeState, batched, smoothed
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time
from episub_router.util.timers import TimerMap

MAX_MISSING = 10_000  # Messages in the list. iroh-gossip PR 135
MAX_EACH = 750  # Of one neighbour that announced them first: so much as all of a full view may have
MAX_RETRANSMISSIONS = 3  # Of one message to one peer. go-libp2p-pubsub: GossipRetransmission
_PIGGYBACK = 0.02  # Seconds before its own time at which a message is asked for beside others (E35)
_PENDING_CHECK = 0.5  # Seconds between checks of a message in validation, or without announcers
_LAG_FACTOR = 1.2  # Times the usual lag behind an announcement, ...
_LAG_MARGIN = 0.005  # ... and so many seconds, until a message counts as missing
_COMMON = 3  # Neighbours that announce a message. Chosen: of eight, two may lie together
_MOST_DELAY = 2.0  # Seconds. Measured: a burst of 1,500 messages, 20 hosts on a core, brings 1.8
# copies of each; without, 1,000 bring 5.3, as all announcers are asked in turn
LOST_AFTER = 5.0  # Seconds until a message is given up, once each announcer was asked twice
_MOST_BACKOFF = 8  # Bound of the doubling of a peer's time to answer one message (RFC 6298, 5.5)


class MissingMessages:
    """The announced messages that are not here, each with the time at which its announcers are
    asked, in turn."""

    __slots__ = ("_delay", "_state", "due")

    def __init__(self, state: PlumtreeState) -> None:
        self._state = state
        # Seconds until a message comes that several neighbours announced: hosts are overloaded,
        # and copies that are asked for would be load, too.
        self._delay = 0.0
        self.due: TimerMap[MessageId] = TimerMap()  # The missing messages, and when to ask for each

    def on_ihave(self, peer: PeerId, message: IHave, now: Time) -> None:
        """IHAVE: note which announced messages are missing here (E34)."""
        state = self._state
        link = state.links[peer]
        due = now + _LAG_FACTOR * link.lag + _LAG_MARGIN
        for id, hops in message.summary:
            known = state.messages.seen.get(id)
            if known is None:
                self._on_unknown(link, id, hops, now, due)
                continue
            known.note_holder(peer, hops)
            link.note_lag(0.0)
            tree = state.trees.get(known.tree)
            if tree is not None and peer not in tree.parents:  # a parent ought to push
                tree.note_served(peer)

    def _on_unknown(
        self, link: NeighborRecord, id: MessageId, hops: int, now: Time, due: Time
    ) -> None:
        peer, messages = link.peer, self._state.messages
        message = messages.open.get(id)
        if message is None or message.informant is None:
            if len(link.first_announced) >= MAX_EACH or len(self.due) >= MAX_MISSING:
                self._state.drop(peer, DropReason.MISSING_FULL)
                return
            message = message or messages.open.setdefault(id, GossipMessage(id))
            message.informant, message.announced_at = peer, now
            link.first_announced[id] = None
            self.due.set(id, due)
        elif due < self.due.get(id) and not message.asked:
            self.due.set(id, due)
        message.note_holder(peer, hops)
        if message.common_at == NEVER and len(message.holders or ()) >= _COMMON:
            message.common_at = now

    def on_first_copy(self, message: GossipMessage) -> None:
        """The first copy of `message` has come: it is missing no more."""
        late = max(message.arrived_at - message.common_at, 0.0)
        self._delay = min(_MOST_DELAY, smoothed(self._delay, late))
        if message.informant is not None:
            self.remove(message)
            if message.asked_at(message.sender) is None:
                self.note_pushed_copy(message, message.arrived_at)

    def note_pushed_copy(self, message: GossipMessage, at: Time) -> None:
        """A copy of a message that was missing came without our asking."""
        informant = self._state.links.get(message.informant)
        if informant is not None:
            informant.note_lag(at - message.announced_at)

    def remove(self, message: GossipMessage) -> None:
        """`message` is missing no more."""
        self.due.cancel(message.id)
        informant = self._state.links.get(message.informant)
        if informant is not None:
            informant.first_announced.pop(message.id, None)

    def give_up(self, message: GossipMessage) -> None:
        """`message` is missing no more, though it didn't come."""
        self.remove(message)
        message.informant = None
        if message.copies is None:
            del self._state.messages.open[message.id]

    def fire(self, now: Time) -> None:
        """The GRAFT timer: ask for what is still missing (E34, E35), count what is lost (E37)."""
        state = self._state
        grafts: dict[PeerId, list[MessageId]] = {}
        early = []
        while (due := self.due.deadline) <= now + _PIGGYBACK:
            for id in self.due.pop_due(due):
                message = state.messages.open[id]
                peers = self._next_announcers(message, now)
                if due > now and not any(peer in grafts for peer in peers):
                    early.append((id, due))
                elif self._asks(message, peers, now):
                    for peer in peers:
                        grafts.setdefault(peer, []).append(id)
        for id, due in early:
            self.due.set(id, due)
        for peer, ids in grafts.items():
            for id in ids:
                state.links[peer].ask(id, now)
            for part in batched(ids):
                state.send(peer, Graft(part))

    def _asks(self, message: GossipMessage, peers: list[PeerId], now: Time) -> bool:
        """Whether `peers` are to get a GRAFT for `message` now."""
        age = now - message.announced_at
        asked = [peer for peer, _ in message.asked]
        if age <= (LOST_AFTER if message.copies is None else VALIDATION_TIMEOUT) and (
            not peers or message.copies is not None
        ):
            # Invalid copies suppress a message for no longer than one validation takes.
            self.due.set(message.id, now + _PENDING_CHECK)
        elif age > LOST_AFTER and all(asked.count(peer) > 1 for peer in peers):
            self._state.drop(None, DropReason.MESSAGE_LOST)
            self.give_up(message)
        else:
            backoff = [min(2 ** asked.count(peer), _MOST_BACKOFF) for peer in peers]
            wait = (n * self._state.patience(p) for n, p in zip(backoff, peers, strict=True))
            self.due.set(message.id, now + max(self._delay, *wait))
            message.asked = [*message.asked, *((peer, now) for peer in peers)]
            return True
        return False

    def _next_announcers(self, message: GossipMessage, now: Time) -> list[PeerId]:
        """The announcer asked least often, then not bad, not late, and the earliest; beside a bad
        one another one, too. None without announcers."""
        state = self._state
        left = [peer for peer in message.holders or () if peer in state.links]
        if len(left) < 2:
            return left
        asked = [peer for peer, _ in message.asked]
        bad = [peer for peer in left if state.standings.is_bad(peer, now)]
        # One that was asked already may be late with this message alone.
        unasked = [peer for peer in left if peer not in bad and peer not in asked]
        late = [p for p in unasked if state.links[p].unanswered(now, state.patience(p))]
        left.sort(key=lambda peer: (asked.count(peer), peer in bad, peer in late))
        return left[:2] if left[0] in bad else left[:1]

    def on_rejected(self, id: MessageId, now: Time) -> None:
        """No copy of `id` is in validation any more: it is asked for at once."""
        if self.due.get(id) < NEVER:
            self.due.set(id, now)

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """What was asked of `peer` last is asked of the next announcer at once (E37)."""
        for message in self._state.messages.open.values():
            is_missing = message.informant is not None
            if is_missing and message.asked and message.asked[-1][0] == peer:
                self.due.set_earliest(message.id, now)

    def clear(self) -> None:
        self.due.clear()

    def on_graft(self, peer: PeerId, message: Graft) -> None:
        """GRAFT: push to the sender from now on, and send the messages that it names (E36)."""
        state = self._state
        if not (message.ids or message.sources or message.standby):
            state.eager[peer] = None
        for id in message.ids:
            stored = state.messages.get(id)
            if stored is None:
                state.drop(peer, DropReason.GRAFT_NOT_CACHED)
                continue
            if stored.tree is None:
                state.eager[peer] = None
            served = stored.served = stored.served or {}
            if served.get(peer, 0) >= MAX_RETRANSMISSIONS:
                state.drop(peer, DropReason.GRAFT_REPEATED)
                continue
            served[peer] = served.get(peer, 0) + 1
            state.send(peer, stored.gossip())
