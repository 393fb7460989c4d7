"""Address records that travel with messages."""

from __future__ import annotations

import pytest
import trio
from libp2p import new_host
from libp2p.abc import IHost
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStoreError, create_signed_peer_record
from libp2p.pubsub.rpc_queue import RpcQueue
from multiaddr import Multiaddr

from episub_router.net import framer as module
from episub_router.net.address_book import AddressBook
from episub_router.net.backlog import Backlog
from episub_router.net.counters import Counters
from episub_router.net.framer import AGAIN_AFTER, MAX_REMEMBERED, Framer, OutgoingFrame
from episub_router.net.peers import RemotePeer
from episub_router.protocol.messages import Nodes


async def test_a_record_outlives_the_addresses_in_the_peerstore() -> None:
    """py-libp2p's peerstore raises when it is asked for the record of a peer whose addresses have
    expired, two minutes after the peer was dialled; messages that name the peer go out anyway."""
    host, other = new_host(), new_host()
    peer: ID = other.get_id()
    address = Multiaddr("/ip4/127.0.0.1/tcp/4001")
    envelope = create_signed_peer_record(peer, [address], other.get_private_key())
    record = envelope.marshal_envelope()
    peerstore = host.get_peerstore()
    peerstore.consume_peer_record(envelope, 120)
    framer = Framer(host, AddressBook(), Counters())
    assert framer.record(peer.to_bytes()) == record
    peerstore.peer_data_map[peer].last_identified -= 200
    with pytest.raises(PeerStoreError, match="expired"):
        peerstore.get_peer_record(peer)
    assert framer.record(peer.to_bytes()) == record
    somebody = RemotePeer(ID(b"somebody"), Backlog(1, 1), 0)
    rpc = framer.encode(somebody, "topic", (Nodes((peer.to_bytes(),), 6),))
    assert record in rpc.SerializeToString()


async def test_a_record_goes_over_a_connection_once_in_a_while(autojump_clock: object) -> None:
    host, other = new_host(), new_host()
    peer: ID = other.get_id()
    envelope = create_signed_peer_record(
        peer, [Multiaddr("/ip4/127.0.0.1/tcp/4001")], other.get_private_key()
    )
    record = envelope.marshal_envelope()
    book = AddressBook()
    assert book.learn(peer.to_bytes(), record)
    framer = Framer(host, book, Counters())
    somebody = RemotePeer(ID(b"somebody"), Backlog(1, 1), 0)
    queue = RpcQueue()

    async def carries_record() -> bool:
        frame = OutgoingFrame(somebody, "topic", (Nodes((peer.to_bytes(),), 6),), framer)
        assert frame.push_to(queue)
        sent = await queue.pop()
        assert sent is not None
        assert peer.to_bytes() in sent.SerializeToString()
        return record in sent.SerializeToString()

    assert await carries_record()
    assert not await carries_record()
    await trio.sleep(AGAIN_AFTER)
    assert await carries_record()
    somebody.forget_connection()
    assert await carries_record()


async def test_so_many_records_are_remembered(autojump_clock: object) -> None:
    book, address = AddressBook(), Multiaddr("/ip4/127.0.0.1/tcp/4001")
    names = []
    for _ in range(MAX_REMEMBERED + 1):
        keys = create_new_key_pair()
        names.append(ID.from_pubkey(keys.public_key).to_bytes())
        envelope = create_signed_peer_record(ID(names[-1]), [address], keys.private_key)
        assert book.learn(names[-1], envelope.marshal_envelope())
    framer = Framer(new_host(), book, Counters())
    somebody = RemotePeer(ID(b"somebody"), Backlog(1, 1), 0)

    def carries_record(peer: bytes) -> bool:
        rpc = framer.encode(somebody, "topic", (Nodes((peer, peer), 6),))
        return rpc.SerializeToString().count(book.record(peer) or b"none") == 1

    assert all(map(carries_record, names))
    assert [carries_record(peer) for peer in (names[-1], names[0])] == [False, True]


async def test_this_node_s_record_is_not_looked_up_for_each_receiver(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = new_host()
    looked_up = []

    def look_up(host: IHost) -> tuple[bytes, bool]:
        looked_up.append(host)
        return b"record %d" % len(looked_up), True

    monkeypatch.setattr(module, "env_to_send_in_RPC", look_up)
    own = Framer(host, AddressBook(), Counters())
    assert [own.own_record() for _ in range(8)] == [b"record 1"] * 8
    await trio.sleep(1)
    assert own.record(host.get_id().to_bytes()) == b"record 2"
