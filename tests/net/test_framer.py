"""Address records that travel with messages."""

from __future__ import annotations

import pytest
from libp2p import new_host
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStoreError, create_signed_peer_record
from multiaddr import Multiaddr

from episub_router.net.address_book import AddressBook
from episub_router.net.backlog import Backlog
from episub_router.net.counters import Counters
from episub_router.net.outbound.framer import Framer
from episub_router.net.peer import RemotePeer
from episub_router.protocol.messages import Nodes


def test_a_record_outlives_the_addresses_in_the_peerstore() -> None:
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
