"""Tree repair: IHAVE, GRAFT and lost neighbours (E34-E37, E40).

A message that was announced and doesn't arrive is missing. The GRAFT timer asks its announcers
in turn, and each GRAFT puts its link back into the tree.
"""

from __future__ import annotations

from episub_router.protocol.effects import DropReason, Send
from episub_router.protocol.messages import MAX_IDS, Gossip, Graft, IHave, MessageSummary
from episub_router.protocol.params import EagerRepair
from episub_router.protocol.plumtree.missing_messages import Doubt
from episub_router.protocol.plumtree.state import PlumtreeState
from episub_router.protocol.types import PeerId, Time

MAX_RETRANSMISSIONS = 3
"""How often GRAFTs of one peer get it one message. go-libp2p-pubsub: GossipRetransmission."""


class TreeRepair:
    """Fetches missing messages, serves the GRAFTs of others, and replaces lost parents."""

    __slots__ = ("_state",)

    def __init__(self, state: PlumtreeState) -> None:
        self._state = state

    def on_ihave(self, peer: PeerId, message: IHave, now: Time) -> None:
        """IHAVE: note which announced messages are missing here (E34)."""
        state = self._state
        if peer not in state.push_peers:
            state.drop(peer, DropReason.NOT_NEIGHBOR)
            return
        store, lazy_push, missing = state.store, state.lazy_push, state.missing
        summary = message.summary
        if len(summary) > MAX_IDS:
            state.drop(peer, DropReason.TOO_MANY_IDS)
            summary = summary[:MAX_IDS]
        wait = state.graft_wait.after_announcement(peer, now)
        for id, announced in summary:
            if id in store:
                lazy_push.note_holder(id, peer)
                state.graft_wait.note_known(peer)
                tree = state.trees.get(store.entry(id).along)
                if tree is not None:
                    tree.failures.note_announcement(peer)
                continue
            state.promises.renew(peer, id, now)
            hops = state.check_hops(peer, announced)
            gave_way = missing.add_announcement(peer, MessageSummary(id, hops), now, wait)
            if gave_way is not None:
                state.drop(gave_way, DropReason.MISSING_FULL)

    def fire(self, now: Time) -> None:
        """The GRAFT timer: ask for what is still missing (E34, E35), count what is lost (E37)."""
        state = self._state
        neighbors, missing = state.push_peers, state.missing
        lost_after = state.graft_wait.until_lost(now)
        grafts, lost = missing.tick(
            state.pending, neighbors, now, self._patience, self._doubt, lost_after
        )
        for _ in lost:
            state.drop(None, DropReason.MESSAGE_LOST)
        for peer, ids in grafts.items():
            for id in ids:
                state.promises.ask(peer, id, now)
            for start in range(0, len(ids), MAX_IDS):
                state.effects.append(Send(peer, Graft(tuple(ids[start : start + MAX_IDS]))))

    def _patience(self, peer: PeerId, now: Time) -> float:
        """Seconds that `peer` has to answer a GRAFT."""
        rtt = self._state.rtt_of(peer)
        answer_time = self._state.graft_wait.for_answer(now)
        most = max(self._state.params.graft_timeout, answer_time)
        return most if rtt is None else min(most, 2 * rtt + answer_time)

    def _doubt(self, peer: PeerId, now: Time) -> Doubt:
        """What speaks against asking `peer`."""
        state = self._state
        if state.standings.is_bad(peer, now):
            return Doubt.BAD
        late = state.promises.is_late(peer, now, self._patience(peer, now))
        return Doubt.LATE if late else Doubt.NONE

    def on_graft(self, peer: PeerId, message: Graft) -> None:
        """GRAFT: push to the sender from now on, and send the messages that it names (E36)."""
        state = self._state
        if peer not in state.push_peers:
            state.drop(peer, DropReason.NOT_NEIGHBOR)
            return
        if not (message.ids or message.sources or message.standby):
            state.push_peers.make_eager(peer)
        if len(message.ids) > MAX_IDS:
            state.drop(peer, DropReason.TOO_MANY_IDS)
        for id in message.ids[:MAX_IDS]:
            stored = state.store.get(id)
            if stored is None:
                state.drop(peer, DropReason.GRAFT_NOT_CACHED)
                continue
            if stored.along is None or peer in state.push_peers.default_only:
                state.push_peers.make_eager(peer)
            served = stored.served = stored.served or {}
            times = served.get(peer, 0)
            if times >= MAX_RETRANSMISSIONS:
                state.drop(peer, DropReason.GRAFT_REPEATED)
                continue
            served[peer] = times + 1
            hops = state.next_hops(stored.hops)
            again = Gossip(id, hops, stored.payload, stored.size, stored.source, stored.along)
            state.effects.append(Send(peer, again))

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """The loss of an eager link may have disconnected us from the tree (E40).

        It has not if the peer never pushed a first copy while others did: then the repair is the
        peer's task.
        """
        state = self._state
        peers = state.push_peers
        state.missing.on_neighbor_down(peer, now)
        state.graft_wait.remove_standby(peer)
        was_parent = peer in peers.parents
        was_eager = peers.remove(peer)
        if state.params.repair is EagerRepair.LAZY or not was_eager:
            return
        if was_parent or not peers.parents:
            lazy = next(iter(peers.lazy), None)
            if lazy is not None:
                state.push_peers.make_eager(lazy)
                state.graft(lazy)
