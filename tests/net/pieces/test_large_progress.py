"""What readers of events are told of large messages."""

from __future__ import annotations

from random import Random

from episub_router import LargeSent
from episub_router.net.events import TopicEvent, TopicEvents
from episub_router.net.large_progress import LargeReports
from episub_router.protocol import events as ev
from episub_router.protocol import piece_messages as m
from episub_router.protocol.messages import Neighbor, NeighborRole
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.pieces.cutting import cut
from episub_router.protocol.topic import Topic

PREAMBLE, PIECES = cut(b"id", b"source", bytes(100_000))


class Log(TopicEvents):
    """Keeps what its readers get."""

    def __init__(self) -> None:
        self.entries: list[TopicEvent] = []

    def emit(self, event: TopicEvent) -> None:
        self.entries.append(event)


def test_a_child_that_left_before_all_was_sent_does_not_count() -> None:
    """It asks for single pieces later, and none wait for it then either."""
    log, machine = Log(), Topic(b"me", "t", EpisubParams(), Random(1))
    reports = LargeReports(log, {"t": machine})
    machine.handle(ev.JoinOverlay(), 0.0)
    reports.published("t", PREAMBLE)
    machine.handle(ev.PublishInPieces(PREAMBLE, PIECES, "payload", PREAMBLE.size), 0.0)
    for peer in (b"left", b"stayed"):
        machine.handle(ev.Received(peer, Neighbor(NeighborRole.REQUEST, 0)), 0.0)
        machine.handle(ev.Received(peer, m.PieceOffer()), 0.0)
        wants = (m.PieceWant(b"id", (1 << PREAMBLE.count) - 1),)
        machine.handle(ev.Received(peer, m.PieceGraft(wants, b"source")), 0.0)
    machine.handle(ev.Received(b"left", m.PiecePrune(b"source")), 1.0)
    reports.cut_off("t", [b"id", b"unknown"], b"left")
    machine.handle(ev.Received(b"left", m.PieceGraft((m.PieceWant(b"id", 1),))), 2.0)
    for peer in (b"left", b"stayed"):
        reports.drained(peer)
    assert log.entries == [LargeSent("t", b"id", PREAMBLE.size, count) for count in (0, 1)]
