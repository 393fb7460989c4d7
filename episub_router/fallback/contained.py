"""py-libp2p's GossipSub with its defects contained.

Each override names the defect that it is for, by function of libp2p 0.8.1,
pubsub/gossipsub.py. What Pubsub's view already takes care of stands in `view`.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.extensions import ExtensionsState
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.fallback.cache import BoundedCache
from episub_router.fallback.params import FallbackParams
from episub_router.fallback.protection import MeshProtection
from episub_router.fallback.sending import MessageSender

BACKOFF_SLACK = 2.0
"""Seconds; chosen: a second that py-libp2p rounds off, and a heartbeat on the way."""

_FANOUT_TTL = 60
"""Seconds; gossipsub: fanout_ttl = 60 s."""

_MAX_IDONTWANT = 1000
"""Ids per peer and heartbeat; go-libp2p-pubsub: MaxIDontWantMessages."""

_BRIDGE_DEGREE_LOW = 1
"""gossipsub's D_low where Episub brings messages too; chosen."""


class ContainedGossipSub(MessageSender):
    """Serves the peers that were added to it."""

    def __init__(
        self,
        params: FallbackParams,
        extensions: ExtensionsState,
        message_id: Callable[[rpc_pb2.Message], bytes],
        *,
        note_link: Callable[[], None],
        connect_to: Callable[[Sequence[rpc_pb2.PeerInfo]], None],
        is_bridged: Callable[[str], bool],
        direct_peers: Iterable[PeerInfo] = (),
    ) -> None:
        """`note_link` is called for each new mesh link, and `connect_to` with the peers in a PRUNE;
        `is_bridged` says of a topic whether Episub brings its messages too."""
        super().__init__(
            params.protocols,
            degree=params.degree,
            degree_low=params.degree_low,
            degree_high=params.degree_high,
            direct_peers=list(direct_peers),
            time_to_live=_FANOUT_TTL,
            heartbeat_interval=params.heartbeat_interval,
            prune_back_off=params.prune_backoff,
            unsubscribe_back_off=params.unsubscribe_backoff,
            max_idontwant_messages=_MAX_IDONTWANT,
            # It lowers the heartbeat's rate to once in 30 s or more, whatever the health of the
            # network (_adapt_heartbeat_parameters).
            adaptive_gossip_enabled=False,
            # Own replay covers it; what is queued here is handed out up to 30 s later.
            pending_messages_ttl=0,
        )
        # With its default parameters every score is 0, and every heartbeat grafts two more
        # peers, up to degree_high (_perform_opportunistic_grafting).
        self.scorer = None
        self.extensions_state = extensions
        self.mcache: BoundedCache = BoundedCache(message_id)
        self._note_link = note_link
        self._connect_to = connect_to
        self._is_bridged = is_bridged
        self._params = params
        self._gossiping = False
        self._fresh: dict[tuple[str, ID], None] = {}  # mesh links since the last heartbeat
        self._left: dict[tuple[str, ID], float] = {}  # when we unsubscribed from our mesh
        self._protection: MeshProtection | None = None
        self._has_work = trio.Event()

    async def wait_for_work(self) -> None:
        """Wait until there is a peer to serve, or a message that one could still ask for."""
        while self._is_idle:
            self._has_work = trio.Event()
            await self._has_work.wait()

    def add_peer(self, peer_id: ID, protocol_id: TProtocol | None) -> None:
        self._has_work.set()
        super().add_peer(peer_id, protocol_id)

    async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
        self._has_work.set()
        await super().publish(msg_forwarder, pubsub_msg)

    @property
    def _is_idle(self) -> bool:
        return not (self.peer_protocol or self.mcache.msgs)

    def attach(self, pubsub: Pubsub) -> None:
        super().attach(pubsub)
        self._protection = MeshProtection(pubsub.host.get_network())

    def _notify_mesh_peer_added(self, peer_id: ID, topic: str) -> None:
        super()._notify_mesh_peer_added(peer_id, topic)
        self._fresh[topic, peer_id] = None
        if self._protection is not None:
            self._protection.protect(topic, peer_id)
        self._note_link()

    def remove_peer(self, peer_id: ID) -> None:
        super().remove_peer(peer_id)
        self._release()

    async def leave(self, topic: str) -> None:
        await super().leave(topic)
        self._release()

    def _release(self) -> None:
        if self._protection is not None:
            self._protection.keep(self.mesh)

    async def beat(self) -> None:
        """One heartbeat. GossipSub's `heartbeat` has no end, and a process with many hosts would
        spend most of its idle time there; and it sends each peer the lists of all before, too."""
        grafts, prunes = self.mesh_heartbeat()
        self.fanout_heartbeat()
        gossip = self.gossip_heartbeat()
        for peer in dict.fromkeys([*grafts, *prunes, *gossip]):
            ihave = gossip.get(peer, {}).items()
            control = self.pack_control_msgs(
                [rpc_pb2.ControlIHave(topicID=t, messageIDs=ids) for t, ids in ihave],
                [rpc_pb2.ControlGraft(topicID=topic) for topic in grafts.get(peer, ())],
                [rpc_pb2.ControlPrune(topicID=topic) for topic in prunes.get(peer, ())],
            )
            await self.emit_control_message(control, peer)
        self.mcache.shift()
        self._forget_what_is_over()

    def mesh_heartbeat(
        self,
    ) -> tuple[defaultdict[ID, list[str]], defaultdict[ID, list[str]]]:
        """A GRAFT may come before our stream to its sender is open; a sender that is gone before
        it is stays in the mesh for good otherwise (handle_graft)."""
        assert self.pubsub is not None
        network = self.pubsub.host.get_network()
        grafts: defaultdict[ID, list[str]] = defaultdict(list)
        prunes: defaultdict[ID, list[str]] = defaultdict(list)
        every = self.mesh
        try:
            for topic, peers in every.items():
                unknown = [peer for peer in peers if peer not in self.peer_protocol]
                peers.difference_update(p for p in unknown if not network.get_connections(p))
                self.mesh = {topic: peers}
                with self._degrees_of(topic):
                    for wanted, more in zip(
                        (grafts, prunes), super().mesh_heartbeat(), strict=True
                    ):
                        for peer in more:
                            wanted[peer].append(topic)
        finally:
            self.mesh = every
        return grafts, prunes

    async def join(self, topic: str) -> None:
        with self._degrees_of(topic):
            await super().join(topic)

    async def on_peer_subscribed(self, peer_id: ID, topic: str) -> None:
        with self._degrees_of(topic):
            await super().on_peer_subscribed(peer_id, topic)

    @contextmanager
    def _degrees_of(self, topic: str) -> Iterator[None]:
        """A bridge needs no mesh of its own. It asks for few links, and gives as many as it is
        asked for: of two that a peer depends on, both could think that it has the other."""
        if not self._is_bridged(topic):
            yield
            return
        params = self._params
        self.degree_low, self.degree = _BRIDGE_DEGREE_LOW, params.bridge_degree
        try:
            yield
        finally:
            self.degree_low, self.degree = params.degree_low, params.degree

    def _get_in_topic_gossipsub_peers_from_minus(
        self, topic: str, num_to_select: int, minus: Iterable[ID], backoff_check: bool = False
    ) -> list[ID]:
        """The heartbeat grafts direct peers, which refuse: they are sent all messages anyway."""
        return super()._get_in_topic_gossipsub_peers_from_minus(
            topic, num_to_select, {*minus, *self.direct_peers}, backoff_check
        )

    def _select_peers_for_pruning(self, topic: str, num_to_prune: int) -> list[ID]:
        """The heartbeat prunes and notes no back-off: it grafts the same peers again, which then
        refuse for a minute (mesh_heartbeat)."""
        surplus = len(self.mesh[topic]) - self._params.degree  # the degree may be a bridge's now
        chosen = super()._select_peers_for_pruning(topic, surplus)
        for peer in chosen:
            self._add_back_off(peer, topic, False)
        return chosen

    def gossip_heartbeat(self) -> dict[ID, dict[str, list[bytes]]]:  # type: ignore[override]
        """A back-off is about grafting. Peers in it get no IHAVE otherwise, and nothing at all
        if all their neighbours pruned them (_handle_topic_heartbeat).

        Nor do peers get one that came into the mesh between a message and the heartbeat, and
        they weren't sent that message either."""
        self._gossiping = True
        try:
            gossip = super().gossip_heartbeat()
        finally:
            self._gossiping = False
        for topic, peer in self._fresh:
            ids = self.mcache.foreign(self.mcache.window(topic), peer)
            if peer in self.peer_protocol and ids:
                gossip.setdefault(peer, {}).setdefault(topic, ids)
        self._fresh.clear()
        return gossip

    def _check_back_off(self, peer: ID, topic: str) -> bool:
        """Whether to send no GRAFT: one that comes early is refused, and renews the back-off.

        Whole seconds end up to one early otherwise, and a py-libp2p peer that we left refuses for
        10 s, whatever our PRUNE said (_check_graft_flood_protection)."""
        now = time.time()
        params = self._params
        left = self._left.get((topic, peer), -math.inf) + params.regraft_pause
        until = max(self.back_off.get(topic, {}).get(peer, -math.inf), left)
        return not self._gossiping and now < until + BACKOFF_SLACK

    def _add_back_off(
        self, peer: ID, topic: str, is_unsubscribe: bool, backoff_duration: int = 0
    ) -> None:
        """Those that we left may graft us as soon as we are back, and not we them (leave)."""
        if is_unsubscribe:
            self._left[topic, peer] = time.time()
        else:
            super()._add_back_off(peer, topic, False, backoff_duration)

    async def handle_graft(self, graft_msg: rpc_pb2.ControlGraft, sender_peer_id: ID) -> None:
        """A back-off that the sender's clock may have ended a second ago is over, and no other
        counts: 10 s after any PRUNE, whatever it said, do otherwise. Each GRAFT for a topic that we
        aren't in gets a PRUNE otherwise, a hundred microseconds of work; gossipsub v1.1 ignores
        it."""
        topic = graft_msg.topicID
        if topic not in self.mesh:
            return
        back_offs = self.back_off.get(topic, {})
        if time.time() >= back_offs.get(sender_peer_id, 0) - 1:
            back_offs.pop(sender_peer_id, None)
            self._left.pop((topic, sender_peer_id), None)
            self.graft_flood_tracking[sender_peer_id].pop(topic, None)
        await super().handle_graft(graft_msg, sender_peer_id)

    async def handle_ihave(self, ihave_msg: rpc_pb2.ControlIHave, sender_peer_id: ID) -> None:
        """Messages of topics that we aren't in are asked for as well otherwise."""
        if ihave_msg.topicID in self.mesh:
            ids = map(_in_hex, ihave_msg.messageIDs)
            exact = rpc_pb2.ControlIHave(topicID=ihave_msg.topicID, messageIDs=ids)
            await super().handle_ihave(exact, sender_peer_id)

    async def handle_prune(self, prune_msg: rpc_pb2.ControlPrune, sender_peer_id: ID) -> None:
        """Back-offs for any topic that a peer makes up are kept for ever otherwise."""
        if prune_msg.topicID in self.mesh:
            await super().handle_prune(prune_msg, sender_peer_id)
            self._release()

    async def _do_px(self, px_peers: list[rpc_pb2.PeerInfo]) -> None:
        """It dials them one after the other in the task that reads from the sender of the PRUNE,
        without a time-out, and signed by whomever."""
        self._connect_to(px_peers[: self.px_peers_count])

    def _forget_what_is_over(self) -> None:
        for ids in self.dont_send_message_ids.values():
            ids.clear()
        # Those of the last second would do; of the last PRUNE, the back-off.
        self.ihave_message_limits.clear()
        self.graft_flood_tracking.clear()
        over = time.time() - BACKOFF_SLACK
        for topic, peers in list(self.back_off.items()):
            for peer in [peer for peer, until in peers.items() if until <= over]:
                del peers[peer]
            if not peers:
                del self.back_off[topic]
        paused = over - self._params.regraft_pause
        self._left = {link: left for link, left in self._left.items() if left > paused}
        self._release()
        for topic in [t for t in self.time_since_last_publish if t not in self.fanout]:
            del self.time_since_last_publish[topic]


def _in_hex(mid: bytes) -> bytes:
    """Ids that happen to consist of hexadecimal digits are decoded before they are compared, so
    give all of them in a form in which that is right (utils.safe_bytes_from_hex)."""
    return mid.hex().encode()
