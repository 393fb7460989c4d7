"""The address book holds verified records only, and not too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.envelope import Envelope, make_unsigned
from libp2p.peer.id import ID
from libp2p.peer.pb import peer_record_pb2
from libp2p.peer.peer_record import PEER_RECORD_ENVELOPE_PAYLOAD_TYPE, PeerRecord
from multiaddr import Multiaddr

from episub_router.net.address_book import AddressBook
from episub_router.wire import peer_records
from episub_router.wire.peer_records import MAX_ADDRESSES, RecordFault
from tests.pubsub.frames import costly_key
from tests.wire.keys import ALICE, BOB, OF_EACH_KIND, id_of, sealed

ADDRESS = Multiaddr("/ip4/10.0.0.1/tcp/4001")


@pytest.mark.parametrize("kind", OF_EACH_KIND)
def test_a_good_record_is_kept(kind: str) -> None:
    keys, book = OF_EACH_KIND[kind](), AddressBook()
    envelope = sealed(keys, ADDRESS)
    assert book.learn(id_of(keys), envelope)
    assert book.record(id_of(keys)) == envelope
    assert book.addresses(id_of(keys)) == (ADDRESS,)
    assert not book.refused


def test_an_unknown_peer_has_nothing() -> None:
    book = AddressBook()
    assert book.record(b"nobody") is None
    assert book.addresses(b"nobody") == ()


def test_a_known_record_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    book = AddressBook()
    envelope = sealed(ALICE, ADDRESS)
    assert book.learn(id_of(ALICE), envelope)
    monkeypatch.setattr(peer_records, "consume_envelope", None)
    assert book.learn(id_of(ALICE), envelope)
    assert not book.refused


def test_a_newer_record_replaces_an_older_one_and_not_the_other_way_round() -> None:
    book = AddressBook()
    old, new = sealed(ALICE, ADDRESS, seq=1), sealed(ALICE, ADDRESS, ADDRESS, seq=2)
    same_seq = sealed(ALICE, Multiaddr("/ip4/10.0.0.2/tcp/1"), seq=2)
    assert book.learn(id_of(ALICE), old)
    assert book.learn(id_of(ALICE), new)
    assert not book.learn(id_of(ALICE), old)
    assert not book.learn(id_of(ALICE), same_seq)
    assert book.record(id_of(ALICE)) == new
    assert book.refused == {RecordFault.STALE: 2}


def in_another_domain() -> bytes:
    payload = PeerRecord(ID(id_of(ALICE)), [ADDRESS], 1).marshal_record()
    kind = PEER_RECORD_ENVELOPE_PAYLOAD_TYPE
    signature = ALICE.private_key.sign(make_unsigned("another domain", kind, payload))
    return Envelope(ALICE.public_key, kind, payload, signature).marshal_envelope()


def of_a_costly_key() -> bytes:
    key = costly_key()
    record = PeerRecord(ID.from_pubkey(key), [ADDRESS], 1).marshal_record()
    return Envelope(key, PEER_RECORD_ENVELOPE_PAYLOAD_TYPE, record, bytes(512)).marshal_envelope()


LONG = Multiaddr("/dns4/" + ".".join(["x" * 60] * 4) + "/tcp/1")
UNREADABLE = [Multiaddr(b"\x99\x99"), Multiaddr(b"\x36\x02\xff\xfe"), Multiaddr(b"")]
"""Multiaddr takes any bytes and raises when they are looked into."""


@pytest.mark.parametrize(
    ("peer", "envelope", "fault"),
    [
        (id_of(BOB), sealed(ALICE, ADDRESS), RecordFault.WRONG_PEER),
        # libp2p verifies the signature, and leaves open whose key it is.
        (id_of(BOB), sealed(ALICE, ADDRESS, about=BOB), RecordFault.WRONG_PEER),
        (id_of(ALICE), in_another_domain(), RecordFault.MALFORMED),
        (id_of(ALICE), sealed(ALICE), RecordFault.NO_ADDRESSES),
        (id_of(ALICE), sealed(ALICE, *UNREADABLE), RecordFault.NO_ADDRESSES),
        (
            id_of(ALICE),
            sealed(ALICE, *[ADDRESS] * (MAX_ADDRESSES + 1)),
            RecordFault.TOO_MANY_ADDRESSES,
        ),
        (id_of(ALICE), sealed(ALICE, *[LONG] * 20), RecordFault.TOO_LARGE),
        (ID.from_pubkey(costly_key()).to_bytes(), of_a_costly_key(), RecordFault.KEY_COSTLY),
    ],
)
def test_a_bad_record_is_refused(peer: bytes, envelope: bytes, fault: RecordFault) -> None:
    book = AddressBook()
    assert not book.learn(peer, envelope)
    assert book.refused == {fault: 1}
    assert book.record(peer) is None


def test_one_changed_byte_anywhere_is_refused() -> None:
    book = AddressBook()
    envelope = sealed(ALICE, ADDRESS)
    for at in range(len(envelope)):
        changed = bytearray(envelope)
        changed[at] ^= 0x01
        assert not book.learn(id_of(ALICE), bytes(changed))
    assert len(book) == 0
    assert sum(book.refused.values()) == len(envelope)


def test_as_many_addresses_as_there_may_be_are_kept_but_unreadable_ones() -> None:
    book = AddressBook()
    assert book.learn(id_of(ALICE), sealed(ALICE, *[ADDRESS] * MAX_ADDRESSES))
    assert book.learn(id_of(BOB), sealed(BOB, UNREADABLE[0], ADDRESS, UNREADABLE[1]))
    assert book.addresses(id_of(BOB)) == (ADDRESS,)


def test_the_least_recently_used_peers_are_forgotten() -> None:
    book = AddressBook(max_peers=3)
    pairs = [create_new_key_pair(bytes([n]) * 32) for n in range(1, 6)]
    for keys in pairs[:3]:
        assert book.learn(id_of(keys), sealed(keys, ADDRESS))
    assert book.record(id_of(pairs[0])) is not None
    for keys in pairs[3:]:
        assert book.learn(id_of(keys), sealed(keys, ADDRESS))
    assert len(book) == 3
    assert [book.addresses(id_of(keys)) != () for keys in pairs] == [True, False, False, True, True]


def test_an_informant_fills_a_share_of_the_book_with_its_own_records_only() -> None:
    """A megabyte of signed records doesn't flush the peers that others named, or that live."""
    mine = [create_new_key_pair(b"m%d" % n * 16) for n in range(8)]
    made_up = [create_new_key_pair(b"u%02d" % n + bytes(29)) for n in range(40)]
    book = AddressBook(max_peers=16, in_use=lambda peer: peer == id_of(made_up[0]))
    for n, keys in enumerate(mine):
        assert book.learn(id_of(keys), sealed(keys, ADDRESS), b"honest %d" % (n % 4))
    for keys in made_up:
        book.learn(id_of(keys), sealed(keys, ADDRESS), b"hostile")
    assert all(book.addresses(id_of(keys)) for keys in mine)
    kept = [keys for keys in made_up if book.addresses(id_of(keys))]
    assert kept == [made_up[0], made_up[-1]]
    assert book.informant(id_of(kept[0])) == b"hostile"


def test_peers_in_use_are_forgotten_last() -> None:
    pairs = [create_new_key_pair(bytes([n]) * 32) for n in range(1, 6)]
    book = AddressBook(max_peers=3, in_use=lambda peer: peer == id_of(pairs[0]))
    for keys in pairs:
        assert book.learn(id_of(keys), sealed(keys, ADDRESS))
    assert [book.addresses(id_of(keys)) != () for keys in pairs] == [True, False, False, True, True]


def test_a_record_is_nobody_elses_word_once_its_subject_has_sent_it() -> None:
    book = AddressBook()
    book.learn(id_of(ALICE), sealed(ALICE, ADDRESS), id_of(BOB))
    assert book.informant(id_of(ALICE)) == id_of(BOB)
    assert not book.learn(id_of(ALICE), sealed(ALICE, ADDRESS, seq=0), id_of(ALICE))
    book.learn(id_of(ALICE), sealed(ALICE, ADDRESS, seq=2), id_of(ALICE))
    assert book.informant(id_of(ALICE)) == id_of(ALICE)
    book.found(id_of(ALICE), ())
    assert book.informant(id_of(ALICE)) is None


def test_neither_a_record_nor_what_was_found_crowds_the_other_out() -> None:
    """A node behind a NAT may sign the addresses of many interfaces, none of which is reached from
    where its public one is in a bootstrap list."""
    elsewhere = [Multiaddr(f"/ip4/10.0.0.{n}/tcp/4001") for n in range(1, 5)]
    there = Multiaddr("/ip4/192.0.2.1/tcp/4001")
    book = AddressBook()
    assert book.learn(id_of(ALICE), sealed(ALICE, *elsewhere))
    book.found(id_of(ALICE), (there,))
    assert book.addresses(id_of(ALICE)) == (elsewhere[0], there, *elsewhere[1:])


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_any_bytes_are_refused(envelope: bytes, peer: bytes) -> None:
    book = AddressBook()
    assert not book.learn(peer, envelope)
    assert sum(book.refused.values()) == 1


@given(st.binary(max_size=100), st.binary(max_size=100), st.binary(max_size=70))
def test_any_bytes_in_a_well_formed_envelope_are_refused(
    key: bytes, address: bytes, signature: bytes
) -> None:
    record = peer_record_pb2.PeerRecord(peer_id=id_of(ALICE), seq=1)
    record.addresses.add(multiaddr=address)
    book = AddressBook()
    for key_type in range(5):
        envelope = peer_records.envelope_pb2.Envelope(
            payload_type=PEER_RECORD_ENVELOPE_PAYLOAD_TYPE,
            payload=record.SerializeToString(),
            signature=signature,
        )
        envelope.public_key.MergeFromString(
            bytes([0x08, key_type, 0x12, len(key)]) + key,
        )
        assert not book.learn(id_of(ALICE), envelope.SerializeToString())
    assert book.refused == {RecordFault.MALFORMED: 5}
