"""The peers that get a message which the overlay can't carry, and how long it is kept."""

from __future__ import annotations

from random import Random

import trio
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router.net.payloads import (
    FANOUT_TTL,
    MAX_REPLAYED,
    MAX_TOPICS,
    REPLAY_WINDOW,
    Fanout,
    Replay,
)
from episub_router.protocol.messages import Gossip

PEERS = [ID(bytes([number])) for number in range(10)]


def gossip(number: int) -> Gossip:
    return Gossip(number, 1, None, 1)


async def test_the_same_few_peers_as_long_as_they_are_there() -> None:
    fanout = Fanout(Random(1), 3)
    first = fanout.choose("t", PEERS)
    assert len(first) == 3
    assert set(fanout.choose("t", reversed(PEERS))) == set(first) == fanout.peers["t"]
    rest = [peer for peer in PEERS if peer != first[0]]
    second = fanout.choose("t", rest)
    assert len(second) == 3
    assert set(first[1:]) < set(second)
    assert fanout.choose("t", []) == []


async def test_the_choice_depends_on_the_seed_and_not_on_the_order() -> None:
    chosen = {
        tuple(Fanout(Random(7), 3).choose("t", peers))
        for peers in (PEERS, PEERS[::-1], PEERS[5:] + PEERS[:5])
    }
    assert len(chosen) == 1


async def test_fanout_ends_when_publishing_does(autojump_clock: MockClock) -> None:
    fanout = Fanout(Random(1), 4)
    fanout.choose("t", PEERS)
    await trio.sleep(0.9 * FANOUT_TTL)
    fanout.choose("u", PEERS)
    assert fanout.peers.keys() == {"t", "u"}
    await trio.sleep(0.9 * FANOUT_TTL)
    fanout.choose("v", PEERS)
    assert fanout.peers.keys() == {"u", "v"}


async def test_fanout_topics_are_bounded() -> None:
    fanout = Fanout(Random(1), 4)
    topics = [f"t{number}" for number in range(MAX_TOPICS)]
    for topic in [*topics, "t0", "new"]:
        fanout.choose(topic, PEERS)
    assert list(fanout.peers) == [*topics[2:], "t0", "new"]


async def test_replay_is_bounded_in_messages_and_time(autojump_clock: MockClock) -> None:
    replay = Replay()
    for number in range(MAX_REPLAYED + 1):
        replay.remember("t", gossip(number))
    assert replay.take("t", PEERS[0]) == [gossip(n) for n in range(1, MAX_REPLAYED + 1)]
    await trio.sleep(0.8 * REPLAY_WINDOW)
    replay.remember("t", gossip(100))
    await trio.sleep(0.4 * REPLAY_WINDOW)
    assert replay.take("t", PEERS[1]) == [gossip(100)]
    await trio.sleep(REPLAY_WINDOW)
    assert replay.take("t", PEERS[2]) == []
    assert replay._recent == {}


async def test_replayed_topics_are_bounded() -> None:
    replay = Replay()
    for number in range(MAX_TOPICS + 1):
        replay.remember(f"t{number}", gossip(number))
    assert replay.take("t0", PEERS[0]) == []
    assert replay.take("t1", PEERS[0]) == [gossip(1)]
    assert len(replay._recent) == MAX_TOPICS


async def test_nobody_is_sent_the_same_message_twice() -> None:
    replay = Replay()
    replay.remember("t", gossip(1), PEERS[:1])
    replay.remember("t", gossip(2))
    assert replay.take("t", PEERS[0]) == [gossip(2)]
    assert replay.take("t", PEERS[0]) == []
    assert replay.take("t", PEERS[1]) == [gossip(1), gossip(2)]
