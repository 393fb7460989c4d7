"""What gossipsub peers that keep scores hold against a neighbour, and what this node does instead.

As in `test_containment`, each test fails with the stock class of libp2p 0.8.1.
"""

from __future__ import annotations

import pytest
import trio
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12
from libp2p.pubsub.pb import rpc_pb2

from episub_router.net.payloads import REPLAY_WINDOW
from tests.fallback.test_containment import ME, TOPIC, Lab, kind, message

__all__ = ["kind"]


def of(author: ID, number: int, data: bytes = b"data") -> rpc_pb2.Message:
    made = message(number, data)
    made.from_id = author.to_bytes()
    return made


async def test_no_peer_is_sent_its_own_messages_again(kind: str) -> None:
    """send_recent_messages, to a peer that became writable or subscribed again, sends all."""
    lab = Lab(kind)
    author, other = lab.add(2)
    await lab.router.join(TOPIC)
    await lab.router.publish(author, of(author, 1))
    await lab.router.publish(other, of(other, 2))
    lab.pubsub.sent(author)
    written: list[rpc_pb2.RPC] = []

    async def write(stream: object, rpc: rpc_pb2.RPC) -> bool:
        written.append(rpc)
        return True

    lab.pubsub.write_msg = write  # type: ignore[attr-defined]
    await lab.router.send_recent_messages(author, TOPIC)
    sent = [m for rpc in [*written, *lab.pubsub.sent(author)] for m in rpc.publish]
    assert sent == [of(other, 2)]


async def test_an_author_without_memory_is_neither_offered_its_messages_nor_sent_them(
    kind: str,
) -> None:
    """gossip_heartbeat and handle_iwant."""
    lab = Lab(kind)
    await lab.router.join(TOPIC)
    [author] = lab.add(1)
    await lab.router.publish(author, of(author, 1))
    lab.pubsub.sent(author)
    await lab.heartbeat()
    named = [rpc for rpc in lab.pubsub.sent(author) if rpc.control.ihave]
    iwant = rpc_pb2.ControlIWant(messageIDs=list(lab.router.mcache.msgs))
    await lab.router.handle_iwant(iwant, author)
    assert not named
    assert not lab.pubsub.sent(author)


@pytest.mark.parametrize("size", [0, 1023])
async def test_nothing_is_said_of_small_messages(kind: str, size: int) -> None:
    """_emit_idontwant_for_message says of every message that it isn't wanted any more."""
    assert await unwanted(kind, ID(b"peer 0"), size) == [0, 0, 0]


async def test_of_large_messages_idontwant_goes_to_those_that_may_yet_send_them() -> None:
    assert await unwanted("contained", ID(b"peer 0"), 1024) == [0, 0, 1]


async def test_of_own_messages_no_idontwant_goes_out(kind: str) -> None:
    """Nobody has them."""
    assert await unwanted(kind, ME, 1024) == [0, 0, 0]


async def unwanted(kind: str, forwarder: ID, size: int) -> list[int]:
    """How many ids each of three mesh peers is sent in IDONTWANT, when `forwarder` brings a
    message by the second of them."""
    lab = Lab(kind)
    peers = lab.add(3, protocol=PROTOCOL_ID_V12)
    await lab.router.join(TOPIC)
    author = ME if forwarder == ME else peers[1]
    for peer in peers:
        lab.pubsub.sent(peer)
    await lab.router.publish(forwarder, of(author, 1, bytes(size)))
    return [
        sum(len(i.messageIDs) for rpc in lab.pubsub.sent(peer) for i in rpc.control.idontwant)
        for peer in peers
    ]


async def test_every_iwant_of_a_peer_in_many_topics_is_answered(kind: str) -> None:
    """_check_iwant_rate_limit answers ten a second; a peer that isn't answered counts a broken
    promise."""
    lab = Lab(kind)
    [peer] = lab.add(1)
    await lab.router.join(TOPIC)
    messages = [message(number) for number in range(75)]
    for each in messages:
        lab.router.mcache.put(each)
    lab.pubsub.sent(peer)
    for number in range(0, 75, 3):
        wanted = [lab.pubsub.get_message_id(m) for m in messages[number : number + 3]]
        await lab.router.handle_iwant(rpc_pb2.ControlIWant(messageIDs=wanted), peer)
    assert [m for rpc in lab.pubsub.sent(peer) for m in rpc.publish] == messages


async def test_mesh_peers_are_protected_while_they_are_in_the_mesh(kind: str) -> None:
    """GossipSub has no part in the connection manager."""
    lab = Lab(kind)
    first, second, third = lab.add(3)
    await lab.router.join(TOPIC)
    assert {peer for peer, _ in lab.pubsub.protected} == {first, second, third}
    await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=60), first)
    assert {peer for peer, _ in lab.pubsub.protected} == {second, third}
    lab.router.remove_peer(second)
    assert {peer for peer, _ in lab.pubsub.protected} == {third}
    await lab.router.leave(TOPIC)
    assert not lab.pubsub.protected


async def test_a_first_message_waits_longer_than_the_cache_for_the_first_peer(
    autojump_clock: object,
) -> None:
    """send_recent_messages has what the last three heartbeats brought."""
    lab = Lab("contained")
    await lab.router.join(TOPIC)
    await lab.router.publish(ME, of(ME, 1))
    for _ in range(10):
        await lab.heartbeat()
    await trio.sleep(0.9 * REPLAY_WINDOW)
    first, second, late = lab.add(3)
    for peer in (first, first, second):
        await lab.router.send_recent_messages(peer, TOPIC)
    assert [len(lab.pubsub.sent(peer)) for peer in (first, second)] == [1, 1]
    await trio.sleep(0.2 * REPLAY_WINDOW)
    await lab.router.send_recent_messages(late, TOPIC)
    assert not lab.pubsub.sent(late)
