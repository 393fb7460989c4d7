"""Peers from which nothing comes, though something should."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from episub_router.net.connections import silence
from episub_router.net.connections.silence import (
    LOOK_INTERVAL,
    LOOKS_AT_REST,
    LOOKS_PUSHED,
    SilenceWatch,
)
from episub_router.net.peers import PeerListener, RemotePeer
from tests.net.fakes import Lab

ME = b"\x00\x24\x08\x01\x12\x20" + bytes(32)


class Watched(Lab, PeerListener):
    """One peer over one connection, with as many bytes received as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.received: int | None = 1000
        monkeypatch.setattr(silence, "bytes_received", lambda *_: self.received)
        self.peer = self.peers[ME]
        self.peer.probed = True
        self.reported: list[RemotePeer] = []
        self.peers.listen(self)
        host: Any = None
        self.watch = SilenceWatch(host, self.peers)

    def peer_silent(self, peer: RemotePeer) -> None:
        self.reported.append(peer)

    def looks(self, most: int) -> int:
        """How many looks it takes until the peer is reported; `most` if it isn't."""
        self.reported.clear()
        for number in range(most):
            self.watch.look()
            if self.reported:
                return number + 1
        return most


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> Watched:
    return Watched(monkeypatch)


async def test_what_acknowledges_nothing_of_what_it_is_sent_is_reported(watched: Watched) -> None:
    watched.watch.note_push(watched.peer)
    assert watched.looks(100) == LOOKS_PUSHED
    assert watched.reported == [watched.peer]
    # Once for each payload that follows a silence, and later than at first: it may have answered.
    assert watched.looks(100) == 100
    watched.watch.note_push(watched.peer)
    assert LOOKS_PUSHED < watched.looks(100) < 100


async def test_any_byte_is_a_sign_of_life(watched: Watched) -> None:
    assert watched.received is not None
    for _ in range(20):
        watched.watch.note_push(watched.peer)
        assert watched.looks(LOOKS_PUSHED - 1) == LOOKS_PUSHED - 1
        watched.received += 1
        assert watched.watch.look() > LOOK_INTERVAL  # Nothing is awaited any more.
    assert not watched.reported


async def test_neighbours_are_looked_at_without_pushes(
    watched: Watched, autojump_clock: MockClock
) -> None:
    watched.watch.look()
    autojump_clock.jump(1000)
    watched.peer.topics["t"] = None
    for look in range(2 * LOOKS_AT_REST + 2):
        watched.watch.look()
        watched.watch.look()  # Not due: looks between don't count.
        reports = len(watched.reported)
        assert reports == (look >= LOOKS_AT_REST) + (look >= 2 * LOOKS_AT_REST + 1)
        autojump_clock.jump(silence.REST_INTERVAL)


async def test_a_neighbour_whose_yamux_answers_is_left_alone(
    watched: Watched, autojump_clock: MockClock
) -> None:
    """A ping each 30 s is enough."""
    assert watched.received is not None
    watched.peer.topics["t"] = None
    for look in range(100):
        watched.received += look % 2
        watched.watch.look()
        autojump_clock.jump(silence.REST_INTERVAL)
    assert not watched.reported


async def test_where_the_system_says_nothing_nobody_is_reported(
    watched: Watched, autojump_clock: MockClock
) -> None:
    watched.received = None
    watched.peer.topics["t"] = None
    for _ in range(20):
        watched.watch.note_push(watched.peer)
        watched.watch.look()
        autojump_clock.jump(silence.REST_INTERVAL)
    assert not watched.reported
