"""docs/wire.md says what the schema, the limits and the codec say."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from episub_router.fallback.extension import EpisubExtension
from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import messages as m
from episub_router.protocol import piece_messages as pm
from episub_router.protocol.hyparview import join, neighbor, rings
from episub_router.protocol.pieces import cutting, pulling, transfers
from episub_router.protocol.pieces.cutting import belongs, cut
from episub_router.protocol.pieces.narrow_tree import RETRY, SHORT
from episub_router.protocol.plumtree import missing_messages as missing
from episub_router.wire import (
    Decoded,
    Frame,
    WireLimits,
    decode_frame,
    encode_frame,
    sign_preamble,
    source_id,
    verify_preamble,
)
from episub_router.wire.leave_proof import sign_leave, verify_leave
from episub_router.wire.peer_records import MAX_ADDRESSES
from episub_router.wire.sequence import WINDOW

TEXT = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
VECTORS = [
    bytes.fromhex(block.replace("\n", ""))
    for block in re.findall(r"^```text\n([0-9a-f\n]+)```$", TEXT, re.MULTILINE)
]
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (\w+(?: \w+)?) \|", re.MULTILINE)
BUT_THE_CONTAINER = [
    descriptor
    for descriptor in pb.DESCRIPTOR.message_types_by_name.values()
    if descriptor.name != "EpisubRpc"
]


def section(name: str) -> str:
    found = re.search(rf"^### `{name}`\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/wire.md has no section about {name}"
    return found[1]


def type_of(field: FieldDescriptor) -> str:
    names = {
        FieldDescriptor.TYPE_BYTES: "bytes",
        FieldDescriptor.TYPE_STRING: "string",
        FieldDescriptor.TYPE_UINT32: "uint32",
        FieldDescriptor.TYPE_UINT64: "uint64",
        FieldDescriptor.TYPE_BOOL: "bool",
    }
    referred = field.message_type or field.enum_type
    name = referred.name if referred else names[field.type]
    return f"repeated {name}" if field.is_repeated else name


@pytest.mark.parametrize("message", BUT_THE_CONTAINER, ids=lambda message: message.name)
def test_each_message_is_described(message: Descriptor) -> None:
    fields_alone, *_enums = section(message.name).split("| value |")
    described = {(int(number), name, kind) for number, name, kind in ROW.findall(fields_alone)}
    assert described == {(field.number, field.name, type_of(field)) for field in message.fields}


def test_the_field_number_is_described() -> None:
    number = pb.EpisubRpc.EPISUB_FIELD_NUMBER
    assert f"| {number} | episub | EpisubFrame |" in TEXT
    tag = pb.EpisubRpc(episub=pb.EpisubFrame()).SerializeToString()[:4]
    assert f"`{tag.hex(' ')}`" in TEXT
    hello = EpisubExtension(announced=True).build_hello_extensions(ID(b"peer"), rpc_pb2.RPC())
    assert f"`{hello.SerializeToString().hex(' ')}`" in TEXT


@pytest.mark.parametrize("enum", [pb.Neighbor.Role, pb.Neighbor.Kind])
def test_enums_are_described(enum: EnumTypeWrapper) -> None:
    for name, value in enum.items():
        assert f"| {value} | {name} |" in section("Neighbor")


def test_limits_are_described() -> None:
    limits = WireLimits()
    for spec in fields(limits):
        assert f"| {spec.name} | {getattr(limits, spec.name):,} |" in TEXT
    assert f"the\n{WINDOW} ids ending there" in TEXT
    assert f"1 to {MAX_ADDRESSES} addresses" in TEXT


def encoded(*messages: m.Message) -> bytes:
    frame = Frame("blocks", 2**60, messages)
    return encode_frame(frame, lambda _: None).SerializeToString()


def read(vector: bytes) -> Decoded | None:
    return decode_frame(rpc_pb2.RPC.FromString(vector))


def frame(*messages: m.Message, hops: int | None = None, tree: bytes | None = None) -> Decoded:
    """As it is read."""
    return Decoded("blocks", 2**60, messages, hops, (), (), tree)


CONTROL = (
    m.IHave((m.MessageSummary(b"\x01\x02", 2),)),
    m.Neighbor(m.NeighborRole.REQUEST, 3, m.LinkKind.RANDOM, (), 2),
    m.Prune(),
)


def test_vectors_of_frames() -> None:
    control, gossip, *_ = VECTORS
    payload = rpc_pb2.Message(data=b"hi", topicIDs=["blocks"])

    assert read(control) == frame(*CONTROL)
    assert read(gossip) == frame(hops=1)
    assert list(rpc_pb2.RPC.FromString(gossip).publish) == [payload]
    assert encoded(*CONTROL) == control
    assert encoded(m.Gossip(b"", 1, payload)) == gossip


def test_vectors_of_source_trees() -> None:
    _, _, control, own_tree, along, *_, peer_id = VECTORS
    source, other = source_id(peer_id), bytes(range(8))
    messages = (
        m.Root((m.TreeRoot(source, 10_000, 0.0015, bytes(range(8))),), (m.RootRequest(source, 5),)),
        m.Graft((), (source,)),
        m.Prune((), (source,)),
        m.Neighbor(m.NeighborRole.ACCEPT, 1, m.LinkKind.NEAR),
    )
    payload = rpc_pb2.Message(from_id=peer_id, data=b"hi", topicIDs=["blocks"])

    assert control.hex() == encoded(*messages).hex()
    assert read(control) == frame(*messages)
    for vector, tree in ((own_tree, source), (along, other)):
        assert vector.hex() == encoded(m.Gossip(b"", 2, payload, 0, source, tree)).hex()
        assert read(vector) == frame(hops=2, tree=tree)


def test_vectors_of_pieces() -> None:
    *_, control, piece, _, _ = VECTORS
    keys = create_new_key_pair(b"\x61" * 32)
    author, seqno = ID.from_pubkey(keys.public_key).to_bytes(), bytes(7) + b"\x07"
    source = source_id(author)
    unsigned, pieces = cut(author + seqno, source, b"a" * 16_386)
    envelope = sign_preamble(keys.private_key, "blocks", unsigned, author, seqno)
    preamble = replace(unsigned, envelope=envelope)
    messages = (
        pm.PieceOffer((pm.TreeOffer(source, 2),)),
        pm.PieceAnnounce(preamble, 0b101, 3),
        pm.PieceGraft((pm.PieceWant(preamble.id, 0b10),), source),
        pm.PiecePrune(source, (author,)),
    )

    for vector, sent in ((control, messages), (piece, (pieces[2],))):
        assert vector.hex() == encoded(*sent).hex()
        assert read(vector) == frame(*sent)
    assert verify_preamble("blocks", preamble)
    assert belongs(preamble, pieces[2])


def test_vectors_of_a_leave() -> None:
    *_, proof, peer_id = VECTORS
    keys = create_new_key_pair(b"\x61" * 32)
    assert ID.from_pubkey(keys.public_key).to_bytes() == peer_id
    assert sign_leave(keys.private_key, "blocks", 2**60) == proof
    assert verify_leave(peer_id, "blocks", proof)


@pytest.mark.parametrize(
    "told",
    [
        f"Pieces have {cutting.SMALLEST_PIECE:,} to {cutting.LARGEST_PIECE:,} bytes",
        f"{transfers.MAX_UNFINISHED} messages or {transfers.MAX_UNFINISHED_BYTES >> 20} MiB are",
        f"while no message of the source had more than {SHORT >> 10} KiB",
        f"ask again after {RETRY:g} s while a message of the source is under way",
        f"({pulling.FIRST_PATIENCE:g} s before the second; 0.15 s once the message is "
        f"{pulling.OVERDUE:g} s old)",
        f"no new piece for {pulling.GIVE_UP_AFTER:g} s ({pulling.EMPTY_AFTER:g} s without any), or "
        f"not whole {pulling.GIVE_UP_AFTER:g} s and a second for each {pulling.SLOWEST >> 10} KiB",
        f"Keep the pieces for {pulling.KEPT_FOR:g} s, at most {transfers.MAX_KEPT_BYTES >> 20} MiB "
        f"of them and of {transfers.MAX_KEPT:,} messages",
        f"announcers of each | {missing.MAX_MISSING:,}; {missing.MAX_EACH};",
        f"copies of one message to one peer on request | {missing.MAX_RETRANSMISSIONS} |",
        f"{missing.LOST_AFTER:g} s after the first announcement",
        f"{rings.NODES_GIVEN} given, up to {m.MAX_NODES} taken; {join.CONTACTS_ASKED}; "
        f"{join.NODES_TIMEOUT:g} s",
        f"has not refused for {neighbor.REFUSED_BACKOFF:g} s",
    ],
)
def test_numbers_of_the_machines(told: str) -> None:
    assert told in " ".join(TEXT.split())
