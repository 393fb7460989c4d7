"""What is to be sent: into Pubsub's queues, or into backlogs that follow as these are emptied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.backlog import Sendable
from episub_router.net.connections.silence import LOOK_INTERVAL, REST_INTERVAL, SilenceWatch
from episub_router.net.counters import Counters, Reason
from episub_router.net.framer import Framer, OutgoingFrame
from episub_router.net.params import RouterParams
from episub_router.net.peers import PeerListener, PeerSide, PeerState, PeerTable, RemotePeer
from episub_router.protocol.messages import Gossip, Message
from episub_router.protocol.piece_messages import Piece
from episub_router.trace.node import NodeTrace

FLUSH_INTERVAL = 0.01
"""Seconds between two looks for room of a publisher that waits; chosen: 32 frames in 10 ms exceed a
core's rate."""

_OPEN = (PeerState.WRITABLE, PeerState.INTERRUPTED)

_LATE = 0.1
"""Seconds; an event loop that is so far behind may itself be why a peer took nothing."""


@dataclass(eq=False)
class Outbound(PeerListener):
    """Sends to the peers of both sides, each with one backlog of bounded size.

    A peer that takes nothing for `stall_timeout` loses its backlog and gets nothing more, until
    it goes on with what Pubsub's queue (32 RPCs) holds for it.
    """

    peers: PeerTable
    framer: Framer
    params: RouterParams
    counters: Counters
    pieces_sent: Callable[[RemotePeer], None]
    """Is called when all pieces that waited for a peer have been sent."""
    silence: SilenceWatch | None = None
    """Is notified of payloads that go out, and looks when the queues are looked at."""

    def __post_init__(self) -> None:
        self._sent = trio.Event()
        """Set when something is sent."""
        self.trace: NodeTrace | None = None

    def send(self, peer: RemotePeer, topic: str, messages: tuple[Message, ...]) -> bool:
        """Send a frame; False if there is no room for it.

        A peer that isn't writable is made so, and what waits for it is dropped if that fails.
        """
        self.peers.note_use(peer)
        frame = OutgoingFrame(peer, topic, messages, self.framer)
        takes = peer.side is PeerSide.EPISUB and not peer.stalled
        queue = self.peers.queue(peer) if takes else None
        if peer.side is PeerSide.GOSSIPSUB:
            self.counters.add(Reason.UNDELIVERABLE)
            kept = False
        elif queue is not None:
            if self.silence is not None and not frame.is_control:
                self.silence.note_push(peer)
            kept = self._put(peer, frame, queue)
        else:
            self.peers.interrupt(peer)
            kept = self._put(peer, frame, None)
            self.peers.request(peer)
        first = messages[0]
        if not kept and self.trace is not None and isinstance(first, Gossip):
            self.trace.payload_dropped(first.id, topic, first.size, peer.key)
        return kept

    def send_piece(self, peer: RemotePeer, topic: str, piece: Piece, more: int = 0) -> bool:
        """Have a piece wait behind all else for `flush`; `more` of its message will follow.
        False without room for it, or a way to the peer: it will be asked for again."""
        self.peers.note_use(peer)
        is_open = peer.side is PeerSide.EPISUB and peer.state in _OPEN and not peer.stalled
        frame = OutgoingFrame(peer, topic, (piece,), self.framer)
        if is_open and peer.backlog.add_piece(topic, piece.id, piece.index, frame, more):
            return True
        self.counters.add(Reason.PIECE_LANE_FULL if is_open else Reason.UNDELIVERABLE)
        return False

    def send_rpc(self, peer: RemotePeer, rpc: Sendable) -> bool:
        """Send gossipsub's RPC; False if there is no room for it, or no stream to the peer."""
        queue = None if peer.stalled else self.peers.queue(peer)
        if queue is not None:
            return self._put(peer, rpc, queue)
        self.counters.add(Reason.BACKLOG_FULL)
        return False

    def peer_writable(self, peer: RemotePeer) -> None:
        """Learn its record while the peerstore has it, and send what was held for it."""
        self.framer.record(peer.key)
        self.flush(peer)

    def forget_topic(self, topic: str) -> None:
        """We left `topic`: of what waits, only the goodbyes are still true."""

        def is_wanted(item: Sendable) -> bool:
            return not isinstance(item, OutgoingFrame) or item.topic != topic or item.says_goodbye

        for peer in self.peers:
            peer.backlog.forget_pieces(topic)
            if peer.backlog:
                peer.backlog.keep_only(is_wanted)

    async def wait_for_room(self, most: int) -> None:
        """Wait until no peer has more than `most` messages waiting, or `stall_timeout` is over."""
        with trio.move_on_after(self.params.stall_timeout):
            while any(self._queued(peer) > most for peer in self.peers):  # noqa: ASYNC110
                await trio.sleep(FLUSH_INTERVAL)

    def _queued(self, peer: RemotePeer) -> int:
        """Messages that wait here and in Pubsub's queue; one that takes nothing doesn't count."""
        queue = None if peer.stalled else self.peers.queue(peer)
        return 0 if queue is None else len(queue) + len(peer.backlog)

    def _put(self, peer: RemotePeer, item: Sendable, queue: RpcQueue | None) -> bool:
        """Put `item` into `queue`, or into the backlog."""
        if queue is not None:
            self._follow(peer, queue)
        kept = peer.backlog.send(item, queue)
        if not kept:
            self.counters.add(Reason.BACKLOG_FULL)
        return kept

    def flush(self, peer: RemotePeer) -> None:
        """Move what waits for `peer` into its queue, as far as there is room; once all pieces of a
        step wait, since before the machine counts those as sent that are yet to come."""
        queue = self.peers.queue(peer) if peer.backlog else None
        if queue is None or peer.state is not PeerState.WRITABLE:
            return
        self._follow(peer, queue)
        pieces = peer.backlog.pieces
        peer.backlog.flush(queue)
        if pieces and not peer.backlog.pieces:
            self.pieces_sent(peer)

    def _follow(self, peer: RemotePeer, queue: RpcQueue) -> None:
        """Something is sent to `peer`: look whether it takes it, and when it does, put what waits
        into `queue`."""
        peer.watched = True
        self._sent.set()
        if "pop" in vars(queue):
            return
        pop = queue.pop

        async def pop_and_refill() -> RPC | None:
            rpc = await pop()
            peer.took = True
            try:
                self.flush(peer)
            except Exception:
                self.counters.caught("sending what waits")
            return rpc

        setattr(queue, "pop", pop_and_refill)  # noqa: B010 (for mypy)

    async def run(self) -> None:
        """Watch for peers that take nothing, until cancelled."""
        rest = LOOK_INTERVAL
        while True:
            due = trio.current_time() + max(rest, LOOK_INTERVAL)
            if rest > LOOK_INTERVAL:
                self._sent = trio.Event()
                with trio.move_on_at(due):
                    await self._sent.wait()
                    due = trio.current_time() + LOOK_INTERVAL
            await trio.sleep_until(due)
            if trio.current_time() - due > _LATE:
                continue
            for peer in self._watched():
                self._look_at(peer)
            rest = REST_INTERVAL if self.silence is None else self.silence.look()
            if self._watched():
                rest = LOOK_INTERVAL

    def _watched(self) -> list[RemotePeer]:
        return [peer for peer in self.peers if peer.watched]

    def _look_at(self, peer: RemotePeer) -> None:
        queue = self.peers.queue(peer)
        if queue is None:
            peer.watched = False
            return
        # It may have taken the place of one that is still being emptied.
        self.flush(peer)
        if len(queue) == 0 and not peer.stalled:
            peer.watched = False
        if len(queue) == 0 or peer.took:
            peer.took = False
            peer.idle_looks = 0
            if peer.stalled:
                self.peers.resume(peer)
            return
        peer.idle_looks += 1
        if not peer.stalled and peer.idle_looks * LOOK_INTERVAL >= self.params.stall_timeout:
            self.peers.stall(peer)
