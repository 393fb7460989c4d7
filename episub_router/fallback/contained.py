"""py-libp2p's GossipSub with its defects contained.

Each override names the defect that it is for, by function of libp2p 0.8.1,
pubsub/gossipsub.py. What Pubsub's view already takes care of stands in `view`.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.extensions import ExtensionsState
from libp2p.pubsub.pb import rpc_pb2

from episub_router.fallback.cache import BoundedCache
from episub_router.fallback.params import FallbackParams
from episub_router.fallback.sending import MessageSender

BACKOFF_SLACK = 2
"""Seconds; chosen: a second that py-libp2p rounds off, and a heartbeat on the way."""

_NEVER = sys.maxsize
"""The end of a back-off that has none."""

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
        note_link: Callable[[], object],
        connect_to: Callable[[Sequence[rpc_pb2.PeerInfo]], None],
        is_bridged: Callable[[str], object],
        direct_peers: Iterable[PeerInfo] = (),
    ) -> None:
        """`note_link` is called for each new mesh link, and `connect_to` with the peers in a PRUNE;
        `is_bridged` has what brings the messages of a topic over Episub, too."""
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
        self._fresh: dict[tuple[str, ID], None] = {}  # mesh links since the last heartbeat
        self._left: dict[tuple[str, ID], None] = {}  # back-offs of those that we left
        self._protected: dict[str, set[ID]] = {}
        """The mesh of each topic, whose connections the connection manager keeps."""
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

    def remove_peer(self, peer_id: ID) -> None:
        super().remove_peer(peer_id)
        self._look_at_links()

    async def leave(self, topic: str) -> None:
        """Those that we left may graft us as soon as we are back, and not we them: a py-libp2p peer
        refuses for 10 s, whatever our PRUNE said (_check_graft_flood_protection)."""
        before = dict(self.back_off.get(topic, {}))
        await super().leave(topic)
        back_offs = self.back_off.get(topic, {})
        for peer in [peer for peer, until in back_offs.items() if until != before.get(peer)]:
            self._left[topic, peer] = None
            back_offs[peer] = int(time.time()) + self._params.regraft_pause + BACKOFF_SLACK
        self._look_at_links()

    def _look_at_links(self, *topics: str) -> None:
        """The mesh of `topics`, or of any, may have changed."""
        network = self._pubsub().host.get_network()
        for topic in topics or dict.fromkeys([*self.mesh, *self._protected]):
            before, mesh = self._protected.pop(topic, set()), set(self.mesh.get(topic, ()))
            for peer in before - mesh:
                network.unprotect(peer, f"gossipsub/{topic}")
            for peer in mesh - before:
                network.protect(peer, f"gossipsub/{topic}")
                self._fresh[topic, peer] = None
                self._note_link()
            if mesh:
                self._protected[topic] = mesh

    async def beat(self) -> None:
        """One heartbeat. GossipSub's `heartbeat` has no end, and a process with many hosts would
        spend most of its idle time there; and it sends each peer the lists of all before, too."""
        grafts, prunes = self.mesh_heartbeat()
        self._look_at_links()
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
                # One with too many links is pruned to the usual degree.
                with self._degrees_of(topic) if len(peers) <= self.degree_high else nullcontext():
                    grafted, pruned = super().mesh_heartbeat()
                for peer in grafted:
                    grafts[peer].append(topic)
                for peer in pruned:
                    prunes[peer].append(topic)
                    # Without it the same peers are grafted again, and refuse for a minute.
                    back_offs = self.back_off.setdefault(topic, {})
                    back_offs[peer] = int(time.time()) + self.prune_back_off + BACKOFF_SLACK
        finally:
            self.mesh = every
        return grafts, prunes

    async def join(self, topic: str) -> None:
        # The heartbeat grafts direct peers, which refuse: they are sent all messages anyway.
        self.back_off.setdefault(topic, {}).update(dict.fromkeys(self.direct_peers, _NEVER))
        with self._degrees_of(topic):
            await super().join(topic)
        self._look_at_links(topic)

    async def on_peer_subscribed(self, peer_id: ID, topic: str) -> None:
        with self._degrees_of(topic):
            await super().on_peer_subscribed(peer_id, topic)
        self._look_at_links(topic)

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

    def gossip_heartbeat(self) -> dict[ID, dict[str, list[bytes]]]:  # type: ignore[override]
        """A back-off is about grafting. Peers in it get no IHAVE otherwise, and nothing at all
        if all their neighbours pruned them (_handle_topic_heartbeat).

        Nor do peers get one that came into the mesh between a message and the heartbeat, and
        they weren't sent that message either."""
        back_off, self.back_off = self.back_off, {}
        try:
            gossip = super().gossip_heartbeat()
        finally:
            self.back_off = back_off
        for topic, peer in self._fresh:
            ids = self.mcache.foreign(self.mcache.window(topic), peer)
            if peer in self.peer_protocol and ids:
                gossip.setdefault(peer, {}).setdefault(topic, ids)
        self._fresh.clear()
        return gossip

    @contextmanager
    def _longer_back_off(self, topic: str, peer: ID) -> Iterator[None]:
        """A back-off that is set meanwhile gets `BACKOFF_SLACK`: a GRAFT that comes early is
        refused, and renews the back-off, and whole seconds end up to one early."""
        before = self.back_off.get(topic, {}).get(peer, 0)
        yield
        back_offs = self.back_off.get(topic, {})
        if back_offs.get(peer, before) != before:
            back_offs[peer] += BACKOFF_SLACK
            self._left.pop((topic, peer), None)

    async def handle_graft(self, graft_msg: rpc_pb2.ControlGraft, sender_peer_id: ID) -> None:
        """A back-off that the sender's clock may have ended a second ago is over, and no other
        counts: 10 s after any PRUNE, whatever it said, do otherwise. Each GRAFT for a topic that we
        aren't in gets a PRUNE otherwise, a hundred microseconds of work; gossipsub v1.1 ignores
        it."""
        topic = graft_msg.topicID
        if topic not in self.mesh:
            return
        back_offs = self.back_off.get(topic, {})
        is_over = time.time() >= back_offs.get(sender_peer_id, 0) - BACKOFF_SLACK - 1
        if is_over or (topic, sender_peer_id) in self._left:
            back_offs.pop(sender_peer_id, None)
            self._left.pop((topic, sender_peer_id), None)
            self.graft_flood_tracking[sender_peer_id].pop(topic, None)
        with self._longer_back_off(topic, sender_peer_id):
            await super().handle_graft(graft_msg, sender_peer_id)
        self._look_at_links(topic)

    async def handle_ihave(self, ihave_msg: rpc_pb2.ControlIHave, sender_peer_id: ID) -> None:
        """Messages of topics that we aren't in are asked for as well otherwise."""
        if ihave_msg.topicID in self.mesh:
            ids = map(_in_hex, ihave_msg.messageIDs)
            exact = rpc_pb2.ControlIHave(topicID=ihave_msg.topicID, messageIDs=ids)
            await super().handle_ihave(exact, sender_peer_id)

    async def handle_prune(self, prune_msg: rpc_pb2.ControlPrune, sender_peer_id: ID) -> None:
        """Back-offs for any topic that a peer makes up are kept for ever otherwise. And the peers
        that it names are dialled one after the other in the task that reads from its sender,
        without a time-out, and signed by whomever (_do_px)."""
        topic = prune_msg.topicID
        if topic in self.mesh:
            alone = rpc_pb2.ControlPrune(topicID=topic, backoff=prune_msg.backoff)
            with self._longer_back_off(topic, sender_peer_id):
                await super().handle_prune(alone, sender_peer_id)
            self._look_at_links(topic)
            self._connect_to(prune_msg.peers[: self.px_peers_count])

    def _forget_what_is_over(self) -> None:
        for ids in self.dont_send_message_ids.values():
            ids.clear()
        # Those of the last second would do; of the last PRUNE, the back-off.
        self.ihave_message_limits.clear()
        self.graft_flood_tracking.clear()
        now = time.time()
        for topic, peers in list(self.back_off.items()):
            most = sys.maxsize if topic in self.mesh else _NEVER - 1
            left = {peer: until for peer, until in peers.items() if now < until <= most}
            if left:
                self.back_off[topic] = left
            else:
                del self.back_off[topic]
        self._left = {
            link: None for link in self._left if link[1] in self.back_off.get(link[0], ())
        }
        for topic in [t for t in self.time_since_last_publish if t not in self.fanout]:
            del self.time_since_last_publish[topic]


def _in_hex(mid: bytes) -> bytes:
    """Ids that happen to consist of hexadecimal digits are decoded before they are compared, so
    give all of them in a form in which that is right (utils.safe_bytes_from_hex)."""
    return mid.hex().encode()
