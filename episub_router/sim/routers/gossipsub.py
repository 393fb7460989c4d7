"""gossipsub as a baseline: one model for the 2018 simulator's, v1.0's and v1.1's rules.

One topic, honest peers: explicit peers and fanout have nothing to act on and are left out;
scoring is `gossipsub_scored`'s. Section names are those of libp2p/specs,
pubsub/gossipsub/gossipsub-v1.0.md, -v1.1.md and -v1.2.md, given as "v1.0, Section".
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from episub_router.sim.network.network import Network
from episub_router.sim.routers.node import Node
from episub_router.sim.routers.params import GossipsubParams
from episub_router.sim.sizes import SIGNED_PAYLOAD, gossipsub_ids, gossipsub_link

PUBLISH, IHAVE, IWANT, GRAFT, PRUNE, IDONTWANT = (
    "publish", "ihave", "iwant", "graft", "prune", "idontwant",
)  # fmt: skip

_EXPIRED = -1


class GossipsubNode(Node):
    """A parcel is (sender, kind, body); PUBLISH's body is (message, hops)."""

    __slots__ = (
        "_backoff", "_held", "_history", "_params", "_served", "_unwanted", "_window", "mesh",
    )  # fmt: skip

    def __init__(
        self, node: int, network: Network[Node], rng: random.Random, params: GossipsubParams
    ) -> None:
        super().__init__(node, network, rng)
        self._params = params
        self.mesh: dict[int, None] = {}
        self._held: dict[int, int] = {}
        """Messages seen, with the hops that they took; `_EXPIRED` once out of the cache."""
        self._window: list[int] = []
        self._history: list[list[int]] = []
        self._backoff: dict[int, float] = {}
        self._served: dict[tuple[int, int], int] = {}
        self._unwanted: dict[int, dict[int, None]] = {}

    # Lifecycle.

    def start(self, contacts: tuple[int, ...]) -> None:
        for peer in contacts:
            self._dial(peer)
        # The first heartbeat comes one period after a random part of one (simsub 2018).
        self.wake_at(self.loop.now + self._params.heartbeat * (1 + self.rng.random()))

    def _dial(self, peer: int) -> None:
        self.records.sent("connect", 1, 0)
        self.network.dial(self, peer)

    def _discover(self) -> None:
        """v1.0, Ambient Peer Discovery: the environment's task; here it offers random nodes to
        one that has lost more than half of its connections."""
        missing = self._params.connect // 2 - len(self.links)
        if missing > 0:
            candidates = [p for p in self.network.nodes if p != self.id and p not in self.links]
            for peer in self.rng.sample(candidates, min(missing, len(candidates))):
                self._dial(peer)

    def goodbye(self) -> None:
        """v1.0, Topic Membership, LEAVE: PRUNE to the mesh."""
        for peer in self.mesh:
            self._send(peer, PRUNE, (), gossipsub_link())

    def connected(self, peer: int) -> None:
        self.gained_neighbor()

    def disconnected(self, peer: int) -> None:
        self.mesh.pop(peer, None)
        if not self.links:
            self.lost_all_neighbors()

    def neighbors(self) -> Iterable[int]:
        return self.mesh

    def messages_in(self, parcel: Any) -> Iterable[int]:
        _, kind, body = parcel
        if kind == PUBLISH:
            return (body[0],)
        return body if kind == IHAVE else ()

    # Messages.

    def receive(self, parcel: tuple[int, str, Any]) -> None:
        sender, kind, body = parcel
        if sender not in self.links:
            return
        if kind == PUBLISH:
            message, hops = body
            if message not in self._held:
                self._accept(message, hops, sender)
        elif kind == IHAVE:
            # v1.0, IHAVE: ask for what was not seen.
            wanted = tuple(message for message in body if message not in self._held)
            if wanted:
                self._send(sender, IWANT, wanted, gossipsub_ids(len(wanted)))
        elif kind == IWANT:
            self._on_iwant(sender, body)
        elif kind == GRAFT:
            self._on_graft(sender)
        elif kind == PRUNE:
            self._on_prune(sender, body)
        else:
            unwanted = self._unwanted.setdefault(sender, {})
            unwanted.update(dict.fromkeys(body))

    def inject(self, message: int, size: int) -> None:
        """v1.0, Message Processing; v1.1, Flood Publishing: own messages go to all peers."""
        if message not in self._held:
            self._accept(message, 0, -1)

    def _accept(self, message: int, hops: int, sender: int) -> None:
        """v1.0, Message Processing: deliver, cache, forward to the mesh but the sender."""
        self._hold(message, hops, sender)
        record = self.records.messages[message]
        if self._params.idontwant and record.size >= self._params.idontwant and sender != -1:
            self._send_to_mesh(sender, IDONTWANT, (message,), gossipsub_ids(1))
        own = sender == -1 and record.source == self.id
        flood = own and self._params.flood_publish
        peers: Iterable[int] = self._flood_peers() if flood else self.mesh
        self._forward([peer for peer in peers if peer != sender], message, hops + 1)

    def _hold(self, message: int, hops: int, sender: int) -> None:
        """v1.0, Message Cache: deliver and cache."""
        self._held[message] = hops
        self._window.append(message)
        self.records.deliver(self.loop.now, message, self.id, hops, sender)

    def _flood_peers(self) -> Iterable[int]:
        return self.links

    def _forward(self, peers: list[int], message: int, hops: int) -> None:
        """A new message goes on to `peers`."""
        self._push(peers, message, hops)

    def _push(self, peers: list[int], message: int, hops: int) -> None:
        if self._unwanted:
            peers = [peer for peer in peers if message not in self._unwanted.get(peer, ())]
        record = self.records.messages[message]
        record.payloads += len(peers)
        self._send_payload(peers, PUBLISH, (message, hops), record.size)

    def _send_payload(self, peers: list[int], kind: str, body: Any, payload: int) -> None:
        """Send `payload` bytes of the message that `body` begins with; its hops are its end."""
        size = SIGNED_PAYLOAD + payload
        self.records.sent(PUBLISH, len(peers), 0)
        self.records.sent("payload", len(peers), size)
        self.trace_send(peers, size, message=body[0], hops=body[-1], payload=size)
        self.network.send(self, peers, (self.id, kind, body), size)

    def _on_iwant(self, sender: int, wanted: tuple[int, ...]) -> None:
        """v1.0, IWANT: send what is in the cache."""
        for message in wanted:
            hops = self._held.get(message, _EXPIRED)
            times = self._served.get((message, sender), 0)
            if hops != _EXPIRED and times < self._params.retransmissions:
                self._served[message, sender] = times + 1
                self._push([sender], message, hops + 1)

    def _on_graft(self, sender: int) -> None:
        """v1.0, GRAFT; v1.1, PRUNE Backoff and Outbound Mesh Quotas: refused with PRUNE within
        the back-off, and when the mesh is full unless we dialled the peer."""
        if sender in self.mesh:
            return
        params = self._params
        full = (
            len(self.mesh) >= params.d_high
            and not params.graft_when_full
            and sender not in self.outbound
        )
        if full or self._backoff.get(sender, 0.0) > self.loop.now:
            self._prune(sender)
        else:
            self.mesh[sender] = None

    def _on_prune(self, sender: int, exchanged: tuple[int, ...]) -> None:
        """v1.0, PRUNE; v1.1, PRUNE Backoff and Peer Exchange."""
        self.mesh.pop(sender, None)
        if self._params.prune_backoff:
            self._backoff[sender] = self.loop.now + self._params.prune_backoff
        if len(self.mesh) < self._params.d_low:
            unknown = [peer for peer in exchanged if peer != self.id and peer not in self.links]
            for peer in unknown[: self._params.d - len(self.mesh)]:
                self._dial(peer)

    def _graft(self, peer: int) -> None:
        self.mesh[peer] = None
        self._send(peer, GRAFT, None, gossipsub_link())

    def _prune(self, peer: int) -> None:
        self.mesh.pop(peer, None)
        if self._params.prune_backoff:
            self._backoff[peer] = self.loop.now + self._params.prune_backoff
        others = [other for other in self.mesh if other != peer][: self._params.prune_peers]
        self._send(peer, PRUNE, tuple(others), gossipsub_link(len(others)))

    def _send(self, peer: int, kind: str, body: Any, size: int) -> None:
        self.records.sent(kind, 1, size)
        named = self._messages_of(kind, body)
        self.trace_send((peer,), size, payload=0, control=kind.upper(), messages=named)
        self.network.send(self, (peer,), (self.id, kind, body), size)

    def _send_to_mesh(self, but: int, kind: str, body: Any, size: int) -> None:
        """To all mesh peers `but` one."""
        for peer in self.mesh:
            if peer != but:
                self._send(peer, kind, body, size)

    def _messages_of(self, kind: str, body: Any) -> tuple[int, ...] | None:
        """The messages that a control message names."""
        return body if kind in (IHAVE, IWANT, IDONTWANT) else None

    # Heartbeat.

    def timer(self) -> None:
        """v1.0, Heartbeat: mesh maintenance, then the message cache, then gossip."""
        self._maintain_mesh()
        self._shift()
        self._gossip()
        self._unwanted.clear()
        self._discover()
        self.wake_at(self.loop.now + self._params.heartbeat)

    def _candidates(self) -> list[int]:
        now = self.loop.now
        return [
            peer
            for peer in self.links
            if peer not in self.mesh and self._backoff.get(peer, 0.0) <= now
        ]

    def _maintain_mesh(self) -> None:
        """v1.0, Mesh Maintenance; v1.1, Outbound Mesh Quotas."""
        params = self._params
        if len(self.mesh) < params.d_low:
            candidates = self._candidates()
            missing = params.d - len(self.mesh)
            for peer in self.rng.sample(candidates, min(missing, len(candidates))):
                self._graft(peer)
        elif len(self.mesh) > params.d_high:
            kept = self._kept()
            missing = params.d_out - sum(peer in self.outbound for peer in kept)
            if missing > 0:
                spare = [p for p in self.mesh if p not in kept and p in self.outbound][:missing]
                inbound = [peer for peer in kept if peer not in self.outbound]
                for peer, outbound in zip(inbound, spare, strict=False):
                    kept[kept.index(peer)] = outbound
            for peer in [peer for peer in self.mesh if peer not in kept]:
                self._prune(peer)
        missing = params.d_out - sum(peer in self.outbound for peer in self.mesh)
        if missing > 0 and len(self.mesh) >= params.d_low:
            candidates = [peer for peer in self._candidates() if peer in self.outbound]
            for peer in self.rng.sample(candidates, min(missing, len(candidates))):
                self._graft(peer)

    def _kept(self) -> list[int]:
        """The mesh peers that stay when there are too many."""
        return self.rng.sample(list(self.mesh), self._params.d)

    def _shift(self) -> None:
        """v1.0, Message Cache."""
        self._history.insert(0, self._window)
        self._window = []
        if len(self._history) > self._params.history:
            for message in self._history.pop():
                self._held[message] = _EXPIRED
            self._served.clear()

    def _gossip(self) -> None:
        """v1.0, Gossip Emission; v1.1, Adaptive Gossip Dissemination."""
        params = self._params
        recent = self._history[: params.history_gossip]
        ids = tuple(message for window in recent for message in window)
        if not ids:
            return
        peers = self._gossip_peers()
        count = max(params.d_lazy, int(params.gossip_factor * len(peers)))
        for peer in self.rng.sample(peers, min(count, len(peers))):
            if peer not in self.mesh:
                self._send(peer, IHAVE, ids, gossipsub_ids(len(ids)))

    def _gossip_peers(self) -> list[int]:
        to_any = self._params.gossip_to_any
        return [peer for peer in self.links if to_any or peer not in self.mesh]
