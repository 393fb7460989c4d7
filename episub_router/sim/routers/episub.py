"""Episub: the protocol core itself, driven in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from typing import Any, get_args

from episub_router.protocol.effects import (
    Assembled,
    Ban,
    Deliver,
    Dial,
    Dropped,
    DropReason,
    Effect,
    MeasureRtt,
    NeighborDown,
    NeighborUp,
    Release,
    Send,
)
from episub_router.protocol.events import (
    Connected,
    ContactsFound,
    DialFailed,
    JoinOverlay,
    LeaveOverlay,
    PayloadAccepted,
    PeerDown,
    Publish,
    PublishInPieces,
    Received,
    RttMeasured,
)
from episub_router.protocol.messages import (
    BroadcastMessage,
    Gossip,
    Graft,
    IHave,
    LinkKind,
    MembershipMessage,
    Neighbor,
    Nodes,
    ShuffleReply,
)
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import Piece, PieceAnnounce, PieceMessage, PiecePrune
from episub_router.protocol.topic import Topic
from episub_router.sim.network.host import NodeId
from episub_router.sim.network.network import Network
from episub_router.sim.routers.large import belongs, children_by_uplink, simulated_pieces
from episub_router.sim.routers.node import Node
from episub_router.sim.sizes import PEER_RECORD, SIGNED_PAYLOAD, episub_control

TOPIC_NAME = "simulated"

_LISTS = (Neighbor, Nodes, ShuffleReply)
"""Messages that name peers, with their records."""

_LISTED = 16
"""Peers remembered that were named over one connection, the last. The router remembers 128; two
lists are what fits a large network's memory."""

_NAMES = {
    kind: kind.__name__.upper()
    for kind in (*get_args(MembershipMessage), *get_args(BroadcastMessage), *get_args(PieceMessage))
}


class EpisubNode(Node):
    """Drives one `Topic`. A parcel is the `Received` event that the receiver is to handle:
    the sender makes one per message, however many peers it goes to."""

    __slots__ = ("_links_up", "_listed", "_piece_threshold", "topic")

    def __init__(
        self, node: NodeId, network: Network[Node], rng: random.Random, params: EpisubParams
    ) -> None:
        super().__init__(node, network, rng)
        self._piece_threshold = params.broadcast.piece_threshold
        if self._piece_threshold:
            params = children_by_uplink(params, network.uplink_of(node), network.uplinks_differ)
        self.topic = Topic(node, TOPIC_NAME, params, rng, network.prefixes.get, belongs=belongs)
        self._links_up = 0
        """Links whose NeighborUp has been carried out, and NeighborDown has not."""
        self._listed: dict[NodeId, tuple[Any, ...]] = {}
        """The peers last named to each connected peer, with their records."""

    # From the network and the script.

    def receive(self, parcel: Received) -> None:
        # The hot path: `_handle` again, without a call. The connection may have ended while
        # this was on its way.
        if parcel.peer in self.links:
            topic = self.topic
            if self._piece_threshold and type(parcel.message) is PiecePrune:
                self._forget_pieces(parcel.peer, parcel.message.source)
            effects = topic.handle(parcel, self.loop.now)
            if effects:
                self._apply(effects)
            deadline = topic.next_deadline()
            if deadline < self._wake:
                self.wake_at(deadline)

    def start(self, contacts: tuple[NodeId, ...]) -> None:
        self._handle(JoinOverlay(contacts))

    def meet(self, peers: tuple[NodeId, ...]) -> None:
        """`peers` are there, too."""
        self._handle(ContactsFound(peers))

    def inject(self, message: int, size: int) -> None:
        source = self.records.messages[message].source
        if 0 < self._piece_threshold <= size:
            preamble, pieces = simulated_pieces(message, source, size)
            self._handle(PublishInPieces(preamble, pieces, None, size))
        else:
            author = source if self.records.authors else None
            self._handle(Publish(message, None, size, author, tree=source))

    def goodbye(self) -> None:
        self._handle(LeaveOverlay())

    def connected(self, peer: NodeId) -> None:
        self._handle(Connected(peer))

    def disconnected(self, peer: NodeId) -> None:
        self._listed.pop(peer, None)
        self._handle(PeerDown(peer))

    def dial_failed(self, peer: NodeId) -> None:
        self._handle(DialFailed(peer))

    def measured(self, peer: NodeId, rtt: float | None) -> None:
        self._handle(RttMeasured(peer, rtt))

    def timer(self) -> None:
        effects = self.topic.handle_timer(self.loop.now)
        if effects:
            self._apply(effects)
        self.wake_at(self.topic.next_deadline())

    def neighbors(self) -> Iterable[int]:
        return [*self.topic.membership.active]

    def near_neighbors(self) -> Iterable[int]:
        links = self.topic.membership.active.items()
        return [peer for peer, link in links if link.kind is LinkKind.NEAR]  # type: ignore[misc]

    def eager(self) -> Iterable[int]:
        return self.topic.broadcast.eager  # type: ignore[return-value]

    def messages_in(self, parcel: Received) -> Iterable[int]:
        message = parcel.message
        if type(message) is Gossip:
            return (message.id,)  # type: ignore[return-value]
        if type(message) is IHave:
            return tuple(entry.id for entry in message.summary)  # type: ignore[misc]
        if type(message) is Piece:
            return (message.id,)  # type: ignore[return-value]
        if type(message) is PieceAnnounce:
            return (message.preamble.id,)  # type: ignore[return-value]
        return ()

    # To the core and back.

    def _handle(self, event: Any) -> None:
        topic = self.topic
        effects = topic.handle(event, self.loop.now)
        if effects:
            self._apply(effects)
        deadline = topic.next_deadline()
        if deadline < self._wake:
            self.wake_at(deadline)

    def _apply(self, effects: list[Effect]) -> None:
        """Carry out `effects` in order; a message that goes to several peers in a row is one
        parcel."""
        message: Any = None
        peers: list[Any] = []
        for effect in effects:
            if type(effect) is Send:
                if effect.message is not message:
                    if peers:
                        self._send(message, peers)
                    message, peers = effect.message, []
                peers.append(effect.peer)
                continue
            if peers:
                self._send(message, peers)
                message, peers = None, []
            getattr(self, _ON_EFFECT[type(effect)])(effect)
        if peers:
            self._send(message, peers)

    def _send(self, message: Any, peers: list[NodeId]) -> None:
        records = self.records
        kind = type(message)
        if kind is Piece:
            self._send_piece(message, peers)
            return
        size = episub_control(message)
        if kind in _LISTS and message.peers:
            size -= self._note_listed(message.peers, peers[0])
        records.sent(_NAMES[kind], len(peers), size)
        if kind is Gossip:
            records.messages[message.id].payloads += len(peers)
            records.sent("payload", len(peers), SIGNED_PAYLOAD + message.size)
            size += SIGNED_PAYLOAD + message.size
        if records.trace is not None:
            self.trace_send(peers, size, **columns(message))
        self.network.send(self, peers, Received(self.id, message), size)

    def _note_listed(self, listed: tuple[Any, ...], peer: NodeId) -> int:
        """`peer` is sent a list: bytes of the records among those last sent to it. The router
        leaves out what it sent over the connection in the last five minutes."""
        before = self._listed.get(peer, ())
        others = [other for other in before if other not in listed]
        self._listed[peer] = (*listed, *others)[:_LISTED]
        return PEER_RECORD * (len(before) - len(others))

    def _send_piece(self, piece: Piece, peers: list[NodeId]) -> None:
        size = episub_control(piece) + piece.size
        parcel = Received(self.id, piece)
        pieces = self.topic.pieces
        assert pieces is not None
        for peer in peers:
            self.network.send_in_bulk(
                self, peer, parcel, size, (piece.id, piece.index), pieces.more(piece.id, peer),
                partial(self._note_piece_sent, piece, peer),
            )  # fmt: skip

    def _note_piece_sent(self, piece: Piece, peer: NodeId) -> None:
        records = self.records
        record: Any = records.messages[piece.id]  # type: ignore[call-overload]
        control = episub_control(piece)
        records.sent("PIECE", 1, control)
        records.sent("payload", 1, piece.size)
        record.payloads += piece.size / record.size
        if records.trace is not None:
            self.trace_send([peer], control + piece.size, **columns(piece))

    def _forget_pieces(self, peer: NodeId, source: Any) -> None:
        """`peer` is no child any more, and gets nothing of what waits for it."""
        pieces = self.topic.pieces
        if pieces is not None:
            ids = {transfer.preamble.id for transfer in pieces.transfers.of_source(source)}
            self.network.forget_bulk(self, peer, ids)

    def _on_assembled(self, effect: Assembled) -> None:
        preamble = effect.preamble
        event = PayloadAccepted(effect.peer, preamble.id, None, preamble.size, preamble.source)
        self._handle(event)

    def _on_deliver(self, effect: Any) -> None:
        parent = -1 if effect.peer is None else effect.peer
        self.records.deliver(self.loop.now, effect.id, self.id, effect.hops, parent)

    def _on_dial(self, effect: Any) -> None:
        self.network.dial(self, effect.peer)

    def _on_release(self, effect: Any) -> None:
        # As in the router: only the side that opened a connection closes it.
        if effect.peer in self.outbound:
            self.network.close(self, effect.peer)

    def _on_measure(self, effect: Any) -> None:
        self.network.measure(self, effect.peer)

    def _on_neighbor_up(self, effect: Any) -> None:
        self._links_up += 1
        link = self.topic.membership.active.get(effect.peer)
        self.trace_event(
            "neighbor",
            remote=effect.peer,
            state="up",
            kind=effect.kind.name.lower(),
            rtt=link.rtt.mean if link is not None and link.rtt is not None else None,
        )
        self.gained_neighbor()

    def _on_neighbor_down(self, effect: Any) -> None:
        self._links_up -= 1
        if self._piece_threshold:
            self.network.forget_bulk(self, effect.peer)
        self.trace_event("neighbor", remote=effect.peer, state="down", reason=effect.reason.value)
        if not self._links_up:
            self.lost_all_neighbors()

    def _on_ban(self, effect: Any) -> None:
        self.records.dropped("ban")
        self.trace_event("discard", remote=effect.peer, reason="ban")

    def _on_dropped(self, effect: Any) -> None:
        reason = effect.reason.value
        self.records.dropped(reason)
        self.trace_event("discard", remote=effect.peer, reason=reason)
        if effect.reason is DropReason.MESSAGE_LOST:
            self.session.given_up += 1


def columns(message: Any) -> dict[str, Any]:
    """What the trace says of `message`, beside its size and receiver."""
    if isinstance(message, Gossip):
        size = SIGNED_PAYLOAD + message.size
        return {"message": message.id, "hops": message.hops, "payload": size}
    columns: dict[str, Any] = {"payload": 0, "control": _NAMES[type(message)]}
    if isinstance(message, Piece):
        columns["messages"] = [message.id]
    elif isinstance(message, IHave):
        columns["messages"] = [entry.id for entry in message.summary]
        columns["announced"] = [entry.hops for entry in message.summary]
    elif isinstance(message, Graft):
        columns["messages"] = message.ids
    elif isinstance(message, Neighbor):
        columns["control"] += f"-{message.role.name}"
    return columns


_ON_EFFECT: dict[type, str] = {
    Deliver: "_on_deliver",
    Assembled: "_on_assembled",
    Dial: "_on_dial",
    Release: "_on_release",
    MeasureRtt: "_on_measure",
    NeighborUp: "_on_neighbor_up",
    NeighborDown: "_on_neighbor_down",
    Ban: "_on_ban",
    Dropped: "_on_dropped",
}
