"""gossipsub v1.1 with peer scoring, as it is run where members may be hostile.

Section names are those of libp2p/specs, pubsub/gossipsub/gossipsub-v1.1.md. Promises (P7) are
go-libp2p-pubsub's: one id of each IWANT has to come within `_PROMISE` seconds.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from episub_router.sim.routers.gossipsub import IHAVE, IWANT, PUBLISH, GossipsubNode
from episub_router.sim.routers.scoring import PeerScores, ScoreParams

_D_SCORE = 4
"""Mesh peers kept for their score. v1.1, Overview of New Parameters: 4 or 5 for a D of 6."""
_PROMISE = 3.0
"""Seconds. go-libp2p-pubsub: IWantFollowupTime."""
_GRAFT_FLOOD = 10.0
"""Seconds after a PRUNE in which a GRAFT costs twice. go-libp2p-pubsub: GraftFloodThreshold."""
_MOST_IHAVES = 10
"""IHAVEs of one peer in a heartbeat. go-libp2p-pubsub: MaxIHaveMessages."""
_OPPORTUNISTIC_TICKS = 60
"""Heartbeats. v1.1, Opportunistic Grafting: 1 minute."""
_OPPORTUNISTIC_PEERS = 2
"""v1.1, Opportunistic Grafting."""


class ScoredGossipsubNode(GossipsubNode):
    """A `GossipsubNode` that scores its peers, and acts on the scores."""

    __slots__ = ("_ihaves", "_promises", "_ticks", "scores")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.scores = PeerScores(ScoreParams())
        self._promises: dict[tuple[int, int], float] = {}
        """(message, peer) asked for and not received yet, and until when it has to come."""
        self._ihaves: dict[int, int] = {}
        """IHAVEs of each peer in this heartbeat."""
        self._ticks = 0

    def score(self, peer: int) -> float:
        """The score of `peer` now."""
        return self.scores.score(peer, self.loop.now)

    # Messages.

    def receive(self, parcel: tuple[int, str, Any]) -> None:
        sender, kind, body = parcel
        if sender not in self.links:
            return
        score, params = self.score(sender), self.scores.params
        if score < params.graylist_threshold:
            return
        if kind == PUBLISH:
            self.scores.on_message(body[0], sender, self.loop.now)
            for promise in [promise for promise in self._promises if promise[0] == body[0]]:
                del self._promises[promise]
        elif kind in (IHAVE, IWANT) and score < params.gossip_threshold:
            return
        elif kind == IHAVE:
            self._ihaves[sender] = self._ihaves.get(sender, 0) + 1
            if self._ihaves[sender] > _MOST_IHAVES:
                return
        super().receive(parcel)

    def _send(self, peer: int, kind: str, body: Any, size: int) -> None:
        if kind == IWANT:
            self._promises.setdefault((self.rng.choice(body), peer), self.loop.now + _PROMISE)
        super()._send(peer, kind, body, size)

    def _flood_peers(self) -> list[int]:
        """Flood Publishing: to peers that aren't below the publish threshold."""
        threshold = self.scores.params.publish_threshold
        return [peer for peer in self.links if self.score(peer) >= threshold]

    # Mesh.

    def _on_graft(self, sender: int) -> None:
        """PRUNE Backoff and Peer Exchange: a GRAFT in the back-off is penalised; one of a peer
        with a negative score is refused."""
        if sender in self.mesh:
            return
        now = self.loop.now
        until = self._backoff.get(sender, 0.0)
        if until > now:
            early = now < until - self._params.prune_backoff + _GRAFT_FLOOD
            self.scores.penalize(sender, 2 if early else 1)
        if self.score(sender) < 0:
            self._prune(sender)
            return
        super()._on_graft(sender)
        if sender in self.mesh:
            self.scores.on_graft(sender, now)

    def _on_prune(self, sender: int, exchanged: tuple[int, ...]) -> None:
        self.scores.on_prune(sender, self.loop.now)
        trusted = self.score(sender) >= self.scores.params.accept_px_threshold
        super()._on_prune(sender, exchanged if trusted else ())

    def _graft(self, peer: int) -> None:
        super()._graft(peer)
        self.scores.on_graft(peer, self.loop.now)

    def _prune(self, peer: int) -> None:
        self.scores.on_prune(peer, self.loop.now)
        super()._prune(peer)

    def disconnected(self, peer: int) -> None:
        self.scores.on_prune(peer, self.loop.now)
        super().disconnected(peer)

    # Heartbeat.

    def timer(self) -> None:
        self.scores.decay()
        self._ihaves.clear()
        now = self.loop.now
        for message, peer in [promise for promise, until in self._promises.items() if until <= now]:
            del self._promises[message, peer]
            self.scores.penalize(peer)
        super().timer()

    def _candidates(self) -> list[int]:
        return [peer for peer in super()._candidates() if self.score(peer) >= 0]

    def _maintain_mesh(self) -> None:
        for peer in [peer for peer in self.mesh if self.score(peer) < 0]:
            self._prune(peer)
        super()._maintain_mesh()
        self._ticks += 1
        if self._ticks % _OPPORTUNISTIC_TICKS == 0 and len(self.mesh) > 1:
            self._graft_opportunistically()

    def _graft_opportunistically(self) -> None:
        """Opportunistic Grafting."""
        middle = median(self.score(peer) for peer in self.mesh)
        if middle < self.scores.params.opportunistic_threshold:
            better = [peer for peer in self._candidates() if self.score(peer) > middle]
            for peer in self.rng.sample(better, min(_OPPORTUNISTIC_PEERS, len(better))):
                self._graft(peer)

    def _kept(self) -> list[int]:
        """Mesh Maintenance: the best by score, and others at random."""
        mesh = self.rng.sample(list(self.mesh), len(self.mesh))
        mesh.sort(key=self.score, reverse=True)
        best, others = mesh[:_D_SCORE], mesh[_D_SCORE:]
        return best + self.rng.sample(others, self._params.d - len(best))

    def _gossip_peers(self) -> list[int]:
        threshold = self.scores.params.gossip_threshold
        return [peer for peer in super()._gossip_peers() if self.score(peer) >= threshold]
