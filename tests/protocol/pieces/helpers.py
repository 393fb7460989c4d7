"""Machines of large messages, with neighbours that take pieces."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from episub_router.protocol import effects as ef
from episub_router.protocol import piece_messages as m
from episub_router.protocol.messages import Message
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import cut, joined
from episub_router.protocol.types import NEVER, PeerId

DATA = Random(2).randbytes(50_000)
PREAMBLE, PIECES = cut("id", "source", DATA)
SECOND = replace(PREAMBLE, id="second")
GRAFT = m.PieceGraft((), "source")
PRUNE = m.PiecePrune("source")
NEAR, FAR = 0.001, 0.1
"""Seconds that links take."""


def offer(rank: int = 0, *, accepted: bool = False) -> m.PieceOffer:
    """Places in the tree of "source"."""
    return m.PieceOffer((m.TreeOffer("source", rank),), accepted)


def machine(
    *peers: PeerId,
    rtt: float = 0.1,
    places: int = 2,
    rtts: Mapping[PeerId, float] | None = None,
    charge: Callable[[PeerId, float], None] = lambda peer, now: None,
) -> Pieces:
    """One whose neighbours are `peers`; `rtts` are round trips that aren't `rtt`."""
    params = BroadcastParams(piece_threshold=1, piece_children=places)
    made = Pieces(params, lambda peer: (rtts or {}).get(peer, rtt), charge=charge)
    for peer in peers:
        made.on_neighbor_up(peer, 0.0)
        made.receive(peer, m.PieceOffer(), 0.0)
    return made


def whole(effects: list[ef.Effect]) -> list[bytes]:
    return [joined(effect.pieces) for effect in effects if isinstance(effect, ef.Assembled)]


def dropped(effects: list[ef.Effect]) -> list[ef.DropReason]:
    return [effect.reason for effect in effects if isinstance(effect, ef.Dropped)]


def to(effects: list[ef.Effect], peer: PeerId) -> list[object]:
    return [e.message for e in effects if isinstance(e, ef.Send) and e.peer == peer]


def bring(node: Pieces, peer: str, preamble: m.Preamble, now: float) -> list[ef.Effect]:
    """All pieces of a message like PREAMBLE's, from `peer`."""
    found: list[ef.Effect] = []
    for piece in PIECES:
        found += node.receive(peer, replace(piece, id=preamble.id), now)
    return found


def child_of(
    peer: PeerId,
    *others: PeerId,
    rtt: float = 0.1,
    charge: Callable[[PeerId, float], None] = lambda peer, now: None,
) -> Pieces:
    """A machine that has `peer` as its parent, and knows of the message."""
    made = machine(peer, *others, rtt=rtt, charge=charge)
    made.receive(peer, m.PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    made.receive(peer, offer(), 0.0)
    made.receive(peer, offer(accepted=True), 0.0)
    return made


class Neighbours:
    """Nodes that are linked for good, with a delay for each link; what they send is counted."""

    def __init__(
        self, links: Mapping[tuple[str, str], float], places: Mapping[str, int] | None = None
    ) -> None:
        self.now = 0.0
        self.places = places or {}
        """Children that nodes may have, where it isn't two."""
        self.delays = {frozenset[PeerId](pair): delay for pair, delay in links.items()}
        self.nodes = {node: self._machine(node) for pair in links for node in pair}
        self.carried: Callable[[str, m.PieceMessage], m.PieceMessage | None] = lambda _, message: (
            message
        )
        """What arrives of a message that a node sends."""
        self.delayed: Callable[[str, m.PieceMessage], float] = lambda _, message: 0.0
        """Seconds that it waits at its sender."""
        self.sent: Counter[tuple[str, str]] = Counter()
        """Messages by sender and kind."""
        self.whole: dict[str, list[bytes]] = {node: [] for node in self.nodes}
        self.dropped: dict[str, list[ef.DropReason]] = {node: [] for node in self.nodes}
        self._order = itertools.count()
        self._queue: list[tuple[float, int, str, str, m.PieceMessage]] = []
        for a, b in links:
            self._act(a, self.nodes[a].on_neighbor_up(b, 0.0))
            self._act(b, self.nodes[b].on_neighbor_up(a, 0.0))
        self.run(1.0)

    def _machine(self, node: str) -> Pieces:
        def rtt_of(peer: PeerId) -> float:
            return 2 * self.delays[frozenset[PeerId]((node, peer))]

        places = self.places.get(node, 2)
        return Pieces(BroadcastParams(piece_threshold=1, piece_children=places), rtt_of)

    def publish(self, node: str, preamble: m.Preamble, pieces: tuple[m.Piece, ...]) -> None:
        self._act(node, self.nodes[node].publish(preamble, pieces, self.now))

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end = self.now + seconds
        while True:
            due, node = min((made.next_deadline(), node) for node, made in self.nodes.items())
            arrives = self._queue[0][0] if self._queue else NEVER
            if min(due, arrives) > end:
                break
            if arrives <= due:
                self.now, _, sender, receiver, message = heapq.heappop(self._queue)
                self._act(receiver, self.nodes[receiver].receive(sender, message, self.now))
            else:
                self.now = max(self.now, due)
                self._act(node, self.nodes[node].handle_timer(self.now))
        self.now = end

    def _act(self, node: str, effects: list[ef.Effect]) -> None:
        self.whole[node] += whole(effects)
        self.dropped[node] += dropped(effects)
        for effect in effects:
            if isinstance(effect, ef.Send):
                self._send(node, effect.peer, effect.message)

    def _send(self, node: str, peer: PeerId, message: Message) -> None:
        assert isinstance(peer, str)
        assert isinstance(message, m.PieceMessage)
        self.sent[node, type(message).__name__] += 1
        carried = self.carried(node, message)
        if carried is not None:
            at = self.now + self.delays[frozenset[PeerId]((node, peer))]
            at += self.delayed(node, message)
            heapq.heappush(self._queue, (at, next(self._order), node, peer, carried))
