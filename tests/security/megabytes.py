"""A megabyte of each thing that a hostile member can write on its pubsub stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count, repeat

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.peer.envelope import Envelope, seal_record
from libp2p.peer.id import ID
from libp2p.peer.peer_record import PEER_RECORD_ENVELOPE_PAYLOAD_TYPE, PeerRecord
from libp2p.pubsub.pb.rpc_pb2 import RPC, ControlGraft, ControlMessage, Message
from libp2p.utils import encode_varint_prefixed
from libp2p.utils.varint import encode_uvarint
from multiaddr import Multiaddr

from episub_router.protocol import messages as m
from episub_router.wire import Frame, encode_frame
from episub_router.wire.leave_proof import sign_leave
from tests.pubsub.frames import costly_key

SIZE = 1_000_000
TOPIC = "news"

_SEQ = count(1)
_KEYS = [create_new_key_pair(b"stranger%04d" % n + bytes(20)) for n in range(32)]


def frame(*messages: m.Message, records: dict[bytes, bytes] | None = None) -> bytes:
    """An Episub frame, as bytes of an RPC."""
    rpc = encode_frame(Frame(TOPIC, next(_SEQ), messages), (records or {}).get)
    return rpc.SerializeToString()


def id_of(keys: KeyPair) -> bytes:
    return ID.from_pubkey(keys.public_key).to_bytes()


def pairs() -> Iterator[bytes]:
    on, off = (RPC.SubOpts(subscribe=on, topicid="a") for on in (True, False))
    return repeat(RPC(subscriptions=[on, off] * 2000).SerializeToString())


def other_topics() -> Iterator[bytes]:
    for n in count():
        topics = [f"{n}/{k}" for k in range(100)]
        yield RPC(
            subscriptions=[RPC.SubOpts(subscribe=True, topicid=topic) for topic in topics]
        ).SerializeToString()


def nothing() -> Iterator[bytes]:
    return repeat(b"")


def control() -> Iterator[bytes]:
    return repeat(RPC(control=ControlMessage()).SerializeToString())


def bad_signatures() -> Iterator[bytes]:
    author = id_of(_KEYS[0])
    for n in count():
        seqno = n.to_bytes(8, "big")
        bad = Message(from_id=author, seqno=seqno, topicIDs=[TOPIC], signature=bytes(64))
        yield RPC(publish=[bad]).SerializeToString()


def many_bad_signatures() -> Iterator[bytes]:
    author = id_of(_KEYS[0])
    for n in count():
        every = [
            Message(
                from_id=author,
                seqno=(n << 16 | k).to_bytes(8, "big"),
                topicIDs=[TOPIC],
                signature=bytes(64),
            )
            for k in range(2000)
        ]
        yield RPC(publish=every).SerializeToString()


def costly_keys() -> Iterator[bytes]:
    key = costly_key()
    message = Message(
        from_id=ID.from_pubkey(key).to_bytes(),
        topicIDs=[TOPIC],
        key=key.serialize(),
        signature=bytes(512),
    )
    for n in count():
        message.seqno = n.to_bytes(8, "big")
        yield RPC(publish=[message]).SerializeToString()


def many_topics() -> Iterator[bytes]:
    return repeat(RPC(publish=[Message(topicIDs=[TOPIC] * 3000)]).SerializeToString())


def costly_sender_records() -> Iterator[bytes]:
    key = costly_key()
    record = PeerRecord(ID.from_pubkey(key), [Multiaddr("/ip4/10.0.0.1/tcp/1")], 1)
    envelope = Envelope(
        key, PEER_RECORD_ENVELOPE_PAYLOAD_TYPE, record.marshal_record(), bytes(512)
    ).marshal_envelope()
    return repeat(RPC(senderRecord=envelope).SerializeToString())


def sender_records_of_many_addresses() -> Iterator[bytes]:
    addresses = [Multiaddr(f"/ip4/10.0.{n >> 8}.{n & 255}/tcp/1") for n in range(5000)]
    for seq in count(1):
        record = PeerRecord(ID(id_of(_KEYS[0])), addresses, seq)
        envelope = seal_record(record, _KEYS[0].private_key).marshal_envelope()
        yield RPC(senderRecord=envelope).SerializeToString()


def grafts() -> Iterator[bytes]:
    for most in (1000, 2000):
        for n in range(10):
            made = [ControlGraft(topicID=f"{n} {k} of nobody's") for k in range(most)]
            yield RPC(control=ControlMessage(graft=made)).SerializeToString()


def announcements() -> Iterator[bytes]:
    for n in count():
        lines = [m.MessageSummary(b"%d/%d" % (n, k), 1) for k in range(1000)]
        yield frame(m.IHave(tuple(lines)))


def leaves() -> Iterator[bytes]:
    while True:
        yield frame(
            *(
                m.Leave(id_of(keys), 3, sign_leave(keys.private_key, TOPIC, time.time_ns()))
                for keys in _KEYS
            )
        )


def records() -> Iterator[bytes]:
    for seq in count(1):
        made = {
            id_of(keys): seal_record(
                PeerRecord(ID(id_of(keys)), [Multiaddr("/ip4/10.0.0.1/tcp/4001")], seq),
                keys.private_key,
            ).marshal_envelope()
            for keys in _KEYS
        }
        yield frame(m.ShuffleReply(tuple(made)), records=made)


def joins() -> Iterator[bytes]:
    for n in count():
        yield frame(*(m.Join(b"\x12\x20" + (n << 8 | k).to_bytes(32, "big"), 6) for k in range(60)))


def unknown_fields() -> Iterator[bytes]:
    return repeat(b"\x78\x00" * 200_000)


def empty_messages() -> Iterator[bytes]:
    return repeat(b"\x12\x00" * 400_000)


KINDS: dict[str, Callable[[], Iterator[bytes]]] = {
    made.__name__.replace("_", " "): made
    for made in (
        pairs,
        other_topics,
        nothing,
        control,
        bad_signatures,
        many_bad_signatures,
        costly_keys,
        many_topics,
        costly_sender_records,
        sender_records_of_many_addresses,
        grafts,
        announcements,
        leaves,
        records,
        joins,
        unknown_fields,
        empty_messages,
    )
}


def megabyte(kind: str) -> bytes:
    """`SIZE` bytes or little less: frames with their lengths."""
    made = bytearray()
    rpcs = KINDS[kind]()
    if isinstance(rpcs, repeat):
        piece = encode_varint_prefixed(next(rpcs))
        return piece * (SIZE // len(piece))
    for rpc in rpcs:
        piece = encode_varint_prefixed(rpc)
        if len(made) + len(piece) > SIZE:
            break
        made += piece
    return bytes(made)


UNFINISHED = encode_uvarint(2**20) + bytes(SIZE)
"""A frame whose last bytes never come."""
