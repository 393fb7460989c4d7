"""Peer scores: P1, P2, P3, P3b and P7 of libp2p/specs, gossipsub-v1.1.md, Peer Scoring.

P4 has nothing to act on, as no simulated message is invalid; P5 is the application's. Times are
seconds, and counters decay once in each heartbeat, which is the decay interval.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from episub_router.util.params import param

_HARDENING = "libp2p/gossipsub-hardening, 1k-attack-*.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParams:
    """Weights, caps and decays, as in the simulations that v1.1 was judged by (Vyzovitis et al.,
    2020); P7 as in Lotus."""

    topic_weight: float = param(0.25, "weight", _HARDENING)
    p1_weight: float = param(0.0027, "weight", _HARDENING)
    p1_cap: float = param(3600.0, "s", _HARDENING)
    p2_weight: float = param(0.664, "weight", _HARDENING)
    p2_cap: float = param(1500.0, "messages", _HARDENING)
    p2_decay: float = param(0.9916, "a second", _HARDENING)
    p3_weight: float = param(-0.25, "weight", _HARDENING)
    p3_cap: float = param(400.0, "messages", _HARDENING)
    p3_decay: float = param(0.997, "a second", _HARDENING)
    p3_threshold: float = param(10.0, "messages", _HARDENING)
    p3_activation: float = param(60.0, "s", _HARDENING)
    p3_window: float = param(
        2.0, "s", "Ethereum's consensus clients: 2 s; 5 ms in the simulations, at 120 messages/s"
    )
    p3b_weight: float = param(-0.25, "weight", _HARDENING)
    p3b_decay: float = param(0.997, "a second", _HARDENING)
    p7_weight: float = param(-10.0, "weight", "Lotus: BehaviourPenaltyWeight")
    p7_threshold: float = param(6.0, "penalties", "Lotus: BehaviourPenaltyThreshold")
    p7_decay: float = param(0.9987, "a second", "Lotus: to 1 % in an hour")
    gossip_threshold: float = param(-4000.0, "score", _HARDENING)
    publish_threshold: float = param(-5000.0, "score", _HARDENING)
    graylist_threshold: float = param(-10000.0, "score", _HARDENING)
    accept_px_threshold: float = param(0.0, "score", _HARDENING)
    opportunistic_threshold: float = param(
        1.0, "score", "libp2p/gossipsub-hardening, 1k-attack-cold-boot-oppgraft.json"
    )
    decay_to_zero: float = param(0.01, "", _HARDENING)


@dataclass(slots=True)
class _Peer:
    grafted_at: float = -1.0
    """When it entered the mesh; negative outside of it."""
    first: float = 0.0
    near_first: float = 0.0
    failures: float = 0.0
    penalties: float = 0.0


@dataclass(slots=True)
class PeerScores:
    """One node's scores of its peers. They are kept for the whole run when a peer is gone.

    Bound: an entry for each peer ever met, and one for each message of the run.
    """

    params: ScoreParams
    _peers: dict[int, _Peer] = field(default_factory=dict)
    _first_at: dict[int, tuple[float, set[int]]] = field(default_factory=dict)
    """When each message came first, and the peers that it counts for as near-first."""

    def _entry(self, peer: int) -> _Peer:
        entry = self._peers.get(peer)
        if entry is None:
            entry = self._peers[peer] = _Peer()
        return entry

    def score(self, peer: int, now: float) -> float:
        """The Score Function; 0 for an unknown peer."""
        entry = self._peers.get(peer)
        if entry is None:
            return 0.0
        params = self.params
        score = params.p2_weight * entry.first + params.p3b_weight * entry.failures
        if entry.grafted_at >= 0:
            score += params.p1_weight * min(now - entry.grafted_at, params.p1_cap)
            score += params.p3_weight * self._deficit(entry, now) ** 2
        score *= params.topic_weight
        excess = max(0.0, entry.penalties - params.p7_threshold)
        return score + params.p7_weight * excess**2

    def _deficit(self, entry: _Peer, now: float) -> float:
        active = now - entry.grafted_at > self.params.p3_activation
        return max(0.0, self.params.p3_threshold - entry.near_first) if active else 0.0

    def on_graft(self, peer: int, now: float) -> None:
        """`peer` has entered the mesh."""
        self._entry(peer).grafted_at = now

    def on_prune(self, peer: int, now: float) -> None:
        """`peer` has left the mesh: a deficit sticks (P3b)."""
        entry = self._peers.get(peer)
        if entry is not None and entry.grafted_at >= 0:
            entry.failures += self._deficit(entry, now) ** 2
            entry.grafted_at = -1.0

    def on_message(self, message: int, peer: int, now: float) -> None:
        """`peer` has delivered `message`: the first one, or a copy of it (P2, P3)."""
        params, entry = self.params, self._entry(peer)
        first = self._first_at.get(message)
        if first is None:
            first = self._first_at[message] = (now, set())
            entry.first = min(entry.first + 1, params.p2_cap)
        at, counted = first
        if entry.grafted_at >= 0 and now - at <= params.p3_window and peer not in counted:
            counted.add(peer)
            entry.near_first = min(entry.near_first + 1, params.p3_cap)

    def penalize(self, peer: int, count: int = 1) -> None:
        """`peer` has misbehaved (P7)."""
        self._entry(peer).penalties += count

    def decay(self) -> None:
        """One decay interval is over."""
        params = self.params
        least = params.decay_to_zero
        for entry in self._peers.values():
            entry.first = _decayed(entry.first * params.p2_decay, least)
            entry.near_first = _decayed(entry.near_first * params.p3_decay, least)
            entry.failures = _decayed(entry.failures * params.p3b_decay, least)
            entry.penalties = _decayed(entry.penalties * params.p7_decay, least)


def _decayed(value: float, least: float) -> float:
    return value if value >= least else 0.0
