"""What is cut and signed, which preambles are believed, and what is made of all pieces."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.rsa import create_new_key_pair as create_rsa
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import get_peer_and_seqno_msg_id

from episub_router import MessageTooLarge
from episub_router.net import large_messages
from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.events import TopicEvents
from episub_router.net.large_messages import LargeMessages
from episub_router.protocol.effects import Assembled
from episub_router.protocol.events import PublishInPieces
from episub_router.protocol.pieces.cutting import cut
from episub_router.util.message_size import message_size
from episub_router.wire import Authorship, sign_preamble, source_id

KEYS = create_new_key_pair(b"\x61" * 32)
AUTHOR = ID.from_pubkey(KEYS.public_key).to_bytes()
BRINGER = ID.from_pubkey(create_new_key_pair(b"\x62" * 32).public_key)
KIB = 1024


class Lab:
    """Large messages of one node, and the messages that they hand to Pubsub."""

    def __init__(self, **pubsub: Any) -> None:
        self.taken: list[tuple[ID, rpc_pb2.Message]] = []
        stand_in: Any = SimpleNamespace(
            **{
                "strict_signing": True,
                "sign_key": KEYS.private_key,
                "get_message_id": get_peer_and_seqno_msg_id,
                "take_assembled": lambda peer, message: self.taken.append((peer, message)),
                **pubsub,
            }
        )
        self.pubsub = stand_in
        self.counters = Counters()
        events = TopicEvents()
        joined: Any = {"t": None, "u": None}
        self.large = LargeMessages(stand_in, self.counters, events, joined, 32 * KIB, 100 * KIB)

    def cut(self, made: rpc_pb2.Message) -> PublishInPieces | None:
        return self.large.cut(made, self.pubsub.get_message_id(made), message_size(made))


def message(size: int = 50 * KIB, *topics: str, author: bytes = AUTHOR) -> rpc_pb2.Message:
    return rpc_pb2.Message(
        from_id=author, seqno=b"\x00" * 7 + b"\x01", data=b"d" * size, topicIDs=topics or ("t",)
    )


def published(lab: Lab, made: rpc_pb2.Message | None = None) -> PublishInPieces:
    event = lab.cut(made or message())
    assert event is not None
    return event


def test_a_message_is_the_same_byte_for_byte_when_it_is_whole() -> None:
    lab, made = Lab(), message()
    event = published(lab, made)
    assert lab.large.refusal("t", event.preamble) is None
    lab.large.take("t", Assembled(event.preamble, event.pieces, BRINGER.to_bytes()))
    assert [(peer, got.SerializeToString()) for peer, got in lab.taken] == [
        (BRINGER, made.SerializeToString())
    ]
    assert lab.counters[Ordinary.ASSEMBLED] == 1


@pytest.mark.parametrize(
    ("lab", "made"),
    [
        pytest.param(Lab(), message(20 * KIB), id="small"),
        pytest.param(Lab(), message(50 * KIB, "t", "u"), id="two topics"),
        pytest.param(Lab(), message(50 * KIB, "v"), id="not joined"),
        pytest.param(Lab(strict_signing=False), message(), id="unsigned topic"),
        pytest.param(Lab(sign_key=None), message(), id="no key"),
        pytest.param(
            Lab(get_message_id=lambda m: sha256(m.data).digest()), message(), id="id of the data"
        ),
    ],
)
def test_what_goes_whole(lab: Lab, made: rpc_pb2.Message) -> None:
    assert lab.cut(made) is None


def test_what_is_too_large_for_pieces_is_refused() -> None:
    with pytest.raises(MessageTooLarge, match="max_message_size"):
        Lab().cut(message(100 * KIB))


def test_what_goes_whole_has_no_room_as_pieces() -> None:
    """A publisher asks for room before the message is made."""
    size = 50 * KIB
    assert Lab().large.may_cut(["t"], size)
    assert not Lab().large.may_cut(["t"], 20 * KIB)
    assert not Lab().large.may_cut(["t", "u"], size)
    assert not Lab(strict_signing=False).large.may_cut(["t"], size)
    assert not Lab(get_message_id=lambda m: sha256(m.data).digest()).large.may_cut(["t"], size)


def test_only_what_its_author_signed_is_believed() -> None:
    lab = Lab()
    preamble = published(lab).preamble
    envelope = preamble.envelope
    assert isinstance(envelope, Authorship)
    other = create_new_key_pair(b"\x63" * 32)
    author = ID.from_pubkey(other.public_key).to_bytes()
    # Signed by its own author, but with the id of another author's message.
    squatter = replace(
        preamble,
        source=source_id(author),
        envelope=sign_preamble(other.private_key, "t", preamble, author, envelope.seqno),
    )
    forged = (
        replace(preamble, root=bytes(32)),
        replace(preamble, envelope=replace(envelope, signature=b"")),
        replace(preamble, envelope=None),
        squatter,
    )
    for known in (False, True):
        if known:
            assert lab.large.refusal("t", preamble) is None
        before = lab.counters[Reason.PREAMBLE_FORGED]
        assert all(lab.large.refusal("t", each) is Reason.PREAMBLE_FORGED for each in forged)
        assert lab.large.refusal("u", preamble) is Reason.PREAMBLE_FORGED
        assert lab.counters[Reason.PREAMBLE_FORGED] == before + 5
    too_large = replace(preamble, size=100 * KIB + 1)
    assert lab.large.refusal("t", too_large) is Reason.PREAMBLE_TOO_LARGE
    assert lab.counters[Reason.PREAMBLE_TOO_LARGE] == 1


def test_with_a_key_that_preambles_may_not_have_messages_go_whole_and_are_not_taken() -> None:
    keys = create_rsa(1024)
    author = ID.from_pubkey(keys.public_key).to_bytes()
    made = message(author=author)
    lab = Lab(sign_key=keys.private_key)
    assert lab.cut(made) is None
    unsigned, _ = cut(lab.pubsub.get_message_id(made), source_id(author), made.SerializeToString())
    envelope = sign_preamble(keys.private_key, "t", unsigned, author, made.seqno)
    refusal = lab.large.refusal("t", replace(unsigned, envelope=envelope))
    assert refusal is Reason.PREAMBLE_KEY_REFUSED
    assert lab.counters[Reason.PREAMBLE_KEY_REFUSED] == 1


def test_a_signature_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    preamble = published(lab).preamble
    assert lab.large.refusal("t", preamble) is None
    monkeypatch.setattr(large_messages, "verify_preamble", lambda topic, preamble: False)
    assert lab.large.refusal("t", preamble) is None
    assert lab.large.refusal("u", preamble) is Reason.PREAMBLE_FORGED


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 40_000,
        message(50 * KIB, "u").SerializeToString(),
        message(50 * KIB, "t", "u").SerializeToString(),
        message(author=BRINGER.to_bytes()).SerializeToString(),
    ],
    ids=["no message", "another topic", "two topics", "another author"],
)
def test_what_an_author_signed_and_is_no_message_of_its_is_dropped(data: bytes) -> None:
    lab, made = Lab(), message()
    id = get_peer_and_seqno_msg_id(made)
    unsigned, pieces = cut(id, source_id(AUTHOR), data)
    envelope = sign_preamble(KEYS.private_key, "t", unsigned, AUTHOR, made.seqno)
    preamble = replace(unsigned, envelope=envelope)
    assert lab.large.refusal("t", preamble) is None
    lab.large.take("t", Assembled(preamble, pieces, BRINGER.to_bytes()))
    assert not lab.taken
    assert lab.counters[Reason.MESSAGE_MISMATCHED] == 1
