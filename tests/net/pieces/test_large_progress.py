"""What readers of events are told of large messages."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

from episub_router import LargeProgress, LargeSent
from episub_router.net.counters import Counters
from episub_router.net.events import TopicEvent, TopicEvents
from episub_router.net.large_messages import LargeMessages
from episub_router.net.topics import JoinedTopic
from episub_router.protocol import events as ev
from episub_router.protocol import piece_messages as m
from episub_router.protocol.messages import Neighbor, NeighborRole
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.pieces.cutting import cut
from episub_router.protocol.topic import Topic
from episub_router.wire import Authorship

PREAMBLE, PIECES = cut(b"id", b"source", bytes(100_000))


class Log(TopicEvents):
    """Keeps what its readers get."""

    def __init__(self) -> None:
        self.entries: list[TopicEvent] = []

    def emit(self, event: TopicEvent) -> None:
        self.entries.append(event)


def reporting() -> tuple[Log, Topic, LargeMessages]:
    """A node that publishes to none yet, and what reports on it."""
    log, machine = Log(), Topic(b"me", "t", EpisubParams(), Random(1))
    pubsub: Any = None
    return log, machine, LargeMessages(pubsub, Counters(), log, {"t": JoinedTopic(machine)}, 1, 1)


def publishing(*peers: bytes) -> tuple[Log, Topic, LargeMessages]:
    """A node whose neighbours `peers` are sent a message of its own."""
    log, machine, reports = reporting()
    machine.handle(ev.JoinOverlay(), 0.0)
    reports.published("t", PREAMBLE)
    machine.handle(ev.PublishInPieces(PREAMBLE, PIECES, "payload", PREAMBLE.size), 0.0)
    wants = (m.PieceWant(b"id", (1 << PREAMBLE.count) - 1),)
    for peer in peers:
        machine.handle(ev.Received(peer, Neighbor(NeighborRole.REQUEST, 0)), 0.0)
        machine.handle(ev.Received(peer, m.PieceOffer()), 0.0)
        machine.handle(ev.Received(peer, m.PieceGraft(wants, b"source")), 0.0)
    return log, machine, reports


def test_one_that_was_not_sent_all_counts_when_it_was() -> None:
    """It left while pieces waited for it, or there was no room for one."""
    log, machine, reports = publishing(b"left", b"stayed")
    assert machine.pieces is not None
    machine.handle(ev.Received(b"left", m.PiecePrune(b"source")), 1.0)
    machine.pieces.not_sent(PIECES[0], b"left")
    machine.pieces.not_sent(PIECES[1], b"left")
    machine.handle(ev.Received(b"left", m.PieceGraft((m.PieceWant(b"id", 1),))), 2.0)
    left, stayed = (SimpleNamespace(key=key) for key in (b"left", b"stayed"))
    for peer in (left, stayed):
        reports.pieces_sent(peer)  # type: ignore[arg-type]
    assert log.entries == [LargeSent("t", b"id", PREAMBLE.size, count) for count in (0, 1)]
    machine.handle(ev.Received(b"left", m.PieceGraft((m.PieceWant(b"id", 2),))), 3.0)
    reports.pieces_sent(left)  # type: ignore[arg-type]
    assert log.entries[2:] == [LargeSent("t", b"id", PREAMBLE.size, 2)]


def test_each_step_is_reported_once_of_however_many_messages() -> None:
    log, machine, reports = reporting()
    machine.handle(ev.JoinOverlay(), 0.0)
    machine.handle(ev.Received(b"a", Neighbor(NeighborRole.REQUEST, 0)), 0.0)
    author = Authorship(bytes(3), b"1", b"", b"signed")

    def take(message: m.PieceAnnounce | m.Piece) -> None:
        with reports.progress("t", message):
            machine.handle(ev.Received(b"a", message), 0.0)

    made = [cut(b"%d" % n, b"%d" % (n % 8), bytes(100_000), author) for n in range(70)]
    for preamble, pieces in made:
        take(m.PieceAnnounce(preamble, 0, 1))
        for piece in pieces:
            take(piece)
            take(piece)
    for _, pieces in made:
        take(pieces[-1])
    received = [entry.received for entry in log.entries if isinstance(entry, LargeProgress)]
    steps = 1 + made[0][0].count
    assert len(received) == 70 * steps
    assert received[:steps] == [*range(0, 100_000, 8192), 100_000]
