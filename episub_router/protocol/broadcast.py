"""The broadcast machine: Plumtree as Episub reworks it (E30-E41).

It learns of neighbours through NeighborUp and NeighborDown, and keeps for each whether it is
pushed to (eager) or told (lazy). It has two timers, the lazy queue's and the missing list's,
and both rest when there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol.announcing import Announcing
from episub_router.protocol.arriving import ArrivingMessages, Copy
from episub_router.protocol.effects import (
    Deliver,
    Dropped,
    DropReason,
    Effect,
    NeighborDown,
    NeighborUp,
    Send,
)
from episub_router.protocol.leading import LeadingSource
from episub_router.protocol.messages import (
    BroadcastMessage,
    Gossip,
    Graft,
    IHave,
    MessageSummary,
    Prune,
)
from episub_router.protocol.missing import MissingMessages
from episub_router.protocol.params import BroadcastParams, EagerRepair
from episub_router.protocol.parenting import Parenting
from episub_router.protocol.store import MessageStore
from episub_router.protocol.tree import Tree
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

_PRUNE = Prune()
_GRAFT = Graft()


class Broadcast:
    """One node's part in one topic's broadcast.

    Drive it with `handle`, `receive` (for messages) and `handle_timer`; all return the
    effects in order.
    """

    __slots__ = (
        "_announcing",
        "_arriving",
        "_effects",
        "_leading",
        "_missing",
        "_missing_deadline",
        "_params",
        "_parenting",
        "_since",
        "_store",
        "_tree",
    )

    def __init__(self, me: PeerId, params: BroadcastParams, rng: Random) -> None:
        self._params = params
        self._parenting = Parenting(me, params)
        self._tree = Tree()
        self._store = MessageStore(params)
        self._missing = MissingMessages(params)
        self._missing_deadline = NEVER
        self._arriving = ArrivingMessages(params)
        self._announcing = Announcing(params, rng)
        self._leading = LeadingSource(params.leading_window)
        self._since = NEVER
        """When the first neighbour came."""
        self._effects: list[Effect] = []

    @property
    def tree(self) -> Tree:
        """The eager and lazy sets, to look at."""
        return self._tree

    @property
    def store(self) -> MessageStore:
        """The cache of messages and seen ids, to look at."""
        return self._store

    @property
    def missing(self) -> int:
        """How many announced messages have not come yet."""
        return len(self._missing)

    @property
    def arriving(self) -> int:
        """How many messages are in validation."""
        return len(self._arriving)

    def handle(
        self, event: ev.BroadcastEvent | ev.RttMeasured | NeighborUp | NeighborDown, now: Time
    ) -> list[Effect]:
        """Act on `event` at `now`."""
        match event:
            case ev.PayloadArrived():
                self._on_arrived(event, now)
            case ev.PayloadAccepted():
                self._on_accepted(event, now)
            case ev.Publish():
                self._on_publish(event, now)
            case ev.PayloadDropped():
                self._on_dropped(event, now)
            case NeighborUp():
                self._on_neighbor_up(event, now)
            case NeighborDown():
                self._on_neighbor_down(event, now)
            case ev.RttMeasured():
                self._parenting.measured(event.peer, event.rtt)
        return self._take_effects()

    def receive(self, peer: PeerId, message: BroadcastMessage, now: Time) -> list[Effect]:
        """Act on a message from `peer`, neighbour or not."""
        match message:
            case Gossip():
                self._on_gossip(peer, message, now)
            case IHave():
                self._on_ihave(peer, message, now)
            case Prune():
                if not self._parenting.crossed(peer, now):
                    self._tree.demote(peer)
            case Graft():
                self._on_graft(peer, message, now)
        return self._take_effects()

    def reconnected(self, peer: PeerId, now: Time) -> list[Effect]:
        """Messages to the neighbour `peer` may have been lost: tell it of the newest ones."""
        self._owe_recent(peer, now)
        return self._take_effects()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        announcing, missing = self._announcing.deadline, self._missing_deadline
        return announcing if announcing < missing else missing

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        self._store.expire(now)
        self._arriving.expire(now)
        if self._announcing.deadline <= now:
            for peer, message in self._announcing.flush(self._tree.lazy):
                self._effects.append(Send(peer, message))
        if self._missing_deadline <= now:
            self._tick(now)
        return self._take_effects()

    def clear(self) -> None:
        """We left the topic: nothing is waited for, or kept for others, any more. Seen ids stay,
        so that a message isn't delivered twice to one who comes back soon."""
        self._store.drop_payloads()
        self._tree.clear()
        self._parenting.clear()
        self._since = NEVER
        self._missing.clear()
        self._missing_deadline = NEVER
        self._arriving.clear()
        self._announcing.clear()

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _drop(self, peer: PeerId | None, reason: DropReason) -> None:
        self._effects.append(Dropped(peer, reason))

    # Payloads

    def _on_publish(self, event: ev.Publish, now: Time) -> None:
        if event.id not in self._store:
            own = Gossip(event.id, 0, event.payload, event.size, event.source)
            self._accept(None, own, {}, now, now)

    def _on_gossip(self, peer: PeerId, message: Gossip, now: Time) -> None:
        if message.id in self._store:
            self._duplicate(peer, message.id, message.hops, now, now)
        else:
            hops = self._checked_hops(peer, message.hops)
            if hops != message.hops:
                message = replace(message, hops=hops)
            self._accept(peer, message, {}, now, now)

    def _on_arrived(self, event: ev.PayloadArrived, now: Time) -> None:
        if event.id in self._store:
            self._duplicate(event.peer, event.id, event.hops, now, now)
        elif not self._arriving.add(event.peer, event.id, event.hops, now):
            self._drop(event.peer, DropReason.PENDING_FULL)

    def _on_accepted(self, event: ev.PayloadAccepted, now: Time) -> None:
        copies = self._arriving.pop(event.id)
        if event.id in self._store:
            return
        first = copies.pop(event.peer, Copy(1, now))
        hops = self._checked_hops(event.peer, first.hops)
        message = Gossip(event.id, hops, event.payload, event.size, event.source)
        self._accept(event.peer, message, copies, first.came, now)

    def _checked_hops(self, peer: PeerId, hops: int) -> int:
        """`hops` brought into range: the message may be valid though its hop count is not."""
        if 1 <= hops <= self._params.max_hops:
            return hops
        self._drop(peer, DropReason.HOPS_INVALID)
        return min(max(1, hops), self._params.max_hops)

    def _hops_on(self, hops: int) -> int:
        """The hop count to send on what reached us in `hops`, within what others accept."""
        return min(hops + 1, self._params.max_hops)

    def _accept(
        self,
        peer: PeerId | None,
        message: Gossip,
        holders: Mapping[PeerId, Copy],
        came: Time,
        now: Time,
    ) -> None:
        """A new message, which `came` before it was validated: deliver it and push it on, but not
        to its `holders` (E30, E32)."""
        tree = self._tree
        effects = self._effects
        id, hops, payload = message.id, message.hops, message.payload
        missing = self._missing.found(id)
        # Who has just come is told of messages that may be older than itself, and older each time.
        asked = missing is not None and missing.asked > 0
        old = asked and now < self._since + 2 * self._params.announce_window
        self._store.add(
            id, hops, payload, message.size, now, message.source, peer, came=came, old=old
        )
        self._leading.note(message.source)
        effects.append(Deliver(id, payload, peer, hops))
        if missing is not None and not len(self._missing):
            self._missing_deadline = NEVER
        if peer is not None:
            if self._promote(peer):
                # It hasn't got our PRUNE yet, and would stop pushing when it does.
                effects.append(Send(peer, _GRAFT))
            tree.brought(peer)
            self._parenting.in_time(peer)
        hops_on = self._hops_on(hops)
        push = Gossip(id, hops_on, payload, message.size, message.source)
        announcers = () if missing is None else [other for other, _ in missing.announcers]
        for other in tree.eager:
            if other != peer and other not in holders and other not in announcers:
                effects.append(Send(other, push))
        for other, copy in holders.items():
            self._duplicate(other, id, copy.hops, copy.came, now)
        if peer is not None and missing is not None:
            self._optimize(peer, id, hops, missing.announcers)
        if tree.lazy:
            known = [*holders, *announcers]
            if peer is not None:
                known.append(peer)
            self._announcing.queue(MessageSummary(id, hops_on), known, now)

    def _promote(self, peer: PeerId) -> bool:
        """Push to `peer` from now on; what waits to be announced it is still told of. False if it
        wasn't lazy."""
        promoted = self._tree.promote(peer)
        if promoted:
            self._announcing.no_longer_lazy(peer)
        return promoted

    def _duplicate(self, peer: PeerId, id: MessageId, hops: int, came: Time, now: Time) -> None:
        """A copy of a message that we have, which `came` lately: this link is not part of the
        tree (E31), unless it is the better one.

        PRUNE is sent even to a lazy peer: it pushed, so it missed our last one.
        """
        tree, parenting = self._tree, self._parenting
        self._checked_hops(peer, hops)  # To be counted: out of range, they win nothing here.
        if peer not in tree:
            return
        self._announcing.held(id, peer)
        if tree.is_eager(peer):
            ours = self._store.seen(id)
            if peer == ours.parent or not self._leading.may_cut(ours.source):
                return
            if parenting.spares(peer, came - ours.came, now):
                return
            if ours.parent is not None and not tree.is_eager(ours.parent):
                # Whoever brought it first pruned us, or has gone: don't lose this link too.
                self._adopt(peer, ours.parent, now)
                return
            if parenting.replaces(peer, hops, came, ours):
                assert ours.parent is not None
                self._swap(ours.parent, peer)
                parenting.chose(peer, ours.at)
                self._adopt(peer, ours.parent, now)
                return
        tree.demote(peer)
        self._effects.append(Send(peer, _PRUNE))

    def _adopt(self, peer: PeerId, before: PeerId, now: Time) -> None:
        """`peer` is our parent in place of the one `before`, also for what is under way."""
        self._tree.brought(peer)
        self._store.replace_parent(before, peer, now - self._params.soonest_repair)

    def _swap(self, parent: PeerId, by: PeerId) -> None:
        """Have `by` push to us in place of `parent`."""
        self._promote(by)
        self._tree.demote(parent)
        self._effects.append(Send(by, _GRAFT))
        self._effects.append(Send(parent, _PRUNE))

    def _optimize(
        self, peer: PeerId, id: MessageId, hops: int, announcers: list[tuple[PeerId, int]]
    ) -> None:
        """Swap the link that pushed for one that would have pushed in fewer hops (E38)."""
        threshold = self._params.optimization_threshold
        if threshold is None or not self._tree.is_eager(peer):
            return
        better, fewest = min(
            ((other, announced) for other, announced in announcers if self._tree.is_lazy(other)),
            key=lambda entry: entry[1],
            default=(None, hops),
        )
        if hops - fewest > threshold:
            self._swap(peer, better)
            self._store.seen(id).parent = better

    def _on_dropped(self, event: ev.PayloadDropped, now: Time) -> None:
        if event.peer in self._tree:
            self._announcing.owe(event.peer, [MessageSummary(event.id, event.hops)], now)

    # Control messages

    def _on_ihave(self, peer: PeerId, message: IHave, now: Time) -> None:
        """E34: mark as missing what we don't have."""
        if peer not in self._tree:
            self._drop(peer, DropReason.NOT_NEIGHBOR)
            return
        store, announcing = self._store, self._announcing
        summary = message.summary
        if len(summary) > self._params.max_ids:
            self._drop(peer, DropReason.TOO_MANY_IDS)
            summary = summary[: self._params.max_ids]
        for id, announced in summary:
            if id in store:
                announcing.held(id, peer)
                continue
            hops = self._checked_hops(peer, announced)
            if not self._missing.announce(peer, MessageSummary(id, hops)):
                self._drop(peer, DropReason.MISSING_FULL)
        if self._missing_deadline == NEVER and len(self._missing):
            self._missing_deadline = now + self._params.missing_tick

    def _on_graft(self, peer: PeerId, message: Graft, now: Time) -> None:
        """E36: push to the sender from now on, and send what it asks for."""
        if peer not in self._tree:
            self._drop(peer, DropReason.NOT_NEIGHBOR)
            return
        self._promote(peer)
        if len(message.ids) > self._params.max_ids:
            self._drop(peer, DropReason.TOO_MANY_IDS)
        for id in message.ids[: self._params.max_ids]:
            stored = self._store.get(id)
            if stored is None:
                self._drop(peer, DropReason.GRAFT_NOT_CACHED)
                continue
            served = stored.served = stored.served or {}
            times = served.get(peer, 0)
            if times >= self._params.graft_retransmissions:
                self._drop(peer, DropReason.GRAFT_REPEATED)
                continue
            served[peer] = times + 1
            hops = self._hops_on(stored.hops)
            again = Gossip(id, hops, stored.payload, stored.size, stored.source)
            self._effects.append(Send(peer, again))

    def _tick(self, now: Time) -> None:
        """The persistent timer of the missing list (E34, E35, E37)."""
        grafts, lost = self._missing.tick(self._arriving, self._tree)
        for _ in lost:
            self._drop(None, DropReason.MESSAGE_LOST)
        for peer, ids in grafts.items():
            self._promote(peer)
            for start in range(0, len(ids), self._params.max_ids):
                self._effects.append(
                    Send(peer, Graft(tuple(ids[start : start + self._params.max_ids])))
                )
        again = len(self._missing) > 0
        self._missing_deadline = now + self._params.missing_tick if again else NEVER

    # Neighbours

    def _on_neighbor_up(self, event: NeighborUp, now: Time) -> None:
        """E39, and tell it of the newest messages: it may have missed what it was away for."""
        self._since = min(self._since, now)
        self._tree.add(event.peer)
        self._parenting.up(event.peer, event.rtt)
        self._owe_recent(event.peer, now)

    def _owe_recent(self, peer: PeerId, now: Time) -> None:
        recent = islice(
            self._store.recent(now - self._params.announce_window), self._params.max_ids
        )
        newest = [MessageSummary(stored.id, self._hops_on(stored.hops)) for stored in recent]
        self._announcing.owe(peer, reversed(newest), now)

    def _on_neighbor_down(self, event: NeighborDown, now: Time) -> None:
        """E40: the loss of an eager link may have cut the tree.

        It has not cut us off if it never brought us anything, while others do: then the repair is
        the peer's.
        """
        self._announcing.forget(event.peer)
        self._parenting.down(event.peer)
        tree = self._tree
        was_parent = event.peer in tree.parents
        was_eager = tree.remove(event.peer)
        if self._params.repair is EagerRepair.LAZY or not was_eager:
            return
        if was_parent or not tree.parents:
            for peer in list(islice(tree.lazy, self._params.repair_links)):
                self._promote(peer)
                self._effects.append(Send(peer, _GRAFT))
