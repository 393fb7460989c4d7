"""As much of Pubsub and its host as the peer table sees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router import PROTOCOL_ID, RouterParams
from episub_router.net.counters import Counters
from episub_router.net.peers import PeerListener, PeerTable, RemotePeer

MESHSUB = TProtocol("/meshsub/1.1.0")


class FakeConnection:
    """A connection that is open."""

    is_closed = False


class FakePubsub:
    """Connections, streams and queues that tests open and lose, as Pubsub would report them."""

    def __init__(self) -> None:
        self.peers: dict[ID, object] = {}
        self.peer_queues: dict[ID, RpcQueue] = {}
        self.connections: dict[ID, list[FakeConnection]] = {}
        network = SimpleNamespace(get_connections=lambda peer: self.connections.get(peer, []))
        self.host = SimpleNamespace(get_network=lambda: network)


class Log(PeerListener):
    """Notes what it is notified of."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def peer_writable(self, peer: RemotePeer) -> None:
        self.entries.append("writable")

    def peer_lost(self, peer: RemotePeer) -> None:
        self.entries.append("lost")

    def pieces_sent(self, peer: RemotePeer) -> None:
        self.entries.append("pieces sent")

    def dial_wanted(self, peer: RemotePeer, for_others: bool) -> None:
        self.entries.append("dial for others" if for_others else "dial")

    def dial_failed(self, peer: RemotePeer) -> None:
        self.entries.append("dial failed")

    def gossipsub_peer_added(self, peer: RemotePeer) -> None:
        self.entries.append(f"gossipsub {peer.protocol}")

    def gossipsub_peer_removed(self, peer: RemotePeer) -> None:
        self.entries.append("no gossipsub")

    def take(self) -> list[str]:
        """What was noted since the last call."""
        entries, self.entries = self.entries, []
        return entries


class Lab:
    """A peer table over a `FakePubsub`, which is moved as py-libp2p moves the real one."""

    def __init__(self, params: RouterParams | None = None) -> None:
        self.pubsub: Any = FakePubsub()
        self.counters = Counters()
        self.params = params or RouterParams()
        self.peers = PeerTable(self.pubsub, self.params, self.counters)
        self.log = Log()

    def listen(self) -> None:
        """Note transitions, after all other listeners."""
        self.peers.listen(self.log)

    def connect(self, peer: RemotePeer) -> None:
        """A connection comes up."""
        self.pubsub.connections.setdefault(peer.id, []).append(FakeConnection())
        self.peers.connection_opened(peer.id)

    def open_stream(
        self, peer: RemotePeer, protocol: TProtocol = PROTOCOL_ID, room: int = 32
    ) -> RpcQueue:
        """Pubsub opens its stream, with a queue of `room` RPCs that nobody empties."""
        self.peers.stream_opened(peer.id, protocol)
        self.pubsub.peers[peer.id] = object()
        queue = self.pubsub.peer_queues[peer.id] = RpcQueue(max_size=room, max_message_size=500)
        self.peers.queue_opened(peer.id)
        return queue

    def make_writable(self, peer: RemotePeer, protocol: TProtocol = PROTOCOL_ID) -> RpcQueue:
        """Connect, and open a stream."""
        self.connect(peer)
        return self.open_stream(peer, protocol)

    def lose_stream(self, peer: RemotePeer) -> None:
        """Pubsub's stream breaks."""
        del self.pubsub.peers[peer.id]
        self.pubsub.peer_queues.pop(peer.id).close()
        self.peers.stream_lost(peer.id)

    def disconnect(self, peer: RemotePeer) -> None:
        """The last connection closes; Pubsub reports only peers that it has a stream to."""
        self.pubsub.connections.pop(peer.id, None)
        self.peers.connection_closed(peer.id)
        if peer.id in self.pubsub.peers:
            self.lose_stream(peer)


def pop(queue: RpcQueue) -> Any:
    """Take one RPC out of `queue`, if there is one, as Pubsub does to write it."""
    taking = queue.pop()
    try:
        if len(queue):
            taking.send(None)
    except StopIteration as taken:
        return taken.value
    finally:
        taking.close()
