"""A megabyte of each thing that a hostile member can write on its pubsub stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, repeat

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.envelope import Envelope
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
from tests.wire.keys import id_of, sealed

SIZE = 1_000_000
TOPIC = "news"

_SEQ = count(1)
_KEYS = [create_new_key_pair(b"stranger%04d" % n + bytes(20)) for n in range(32)]


def frame(*messages: m.Message, records: dict[bytes, bytes] | None = None) -> bytes:
    """An Episub frame, as bytes of an RPC."""
    rpc = encode_frame(Frame(TOPIC, next(_SEQ), messages), (records or {}).get)
    return rpc.SerializeToString()


def always(rpc: RPC) -> Callable[[], Iterator[bytes]]:
    return partial(repeat, rpc.SerializeToString())


def pairs() -> RPC:
    """Subscriptions and their ends."""
    on, off = (RPC.SubOpts(subscribe=on, topicid="a") for on in (True, False))
    return RPC(subscriptions=[on, off] * 2000)


def other_topics() -> Iterator[bytes]:
    for n in count():
        topics = [f"{n}/{k}" for k in range(100)]
        yield RPC(
            subscriptions=[RPC.SubOpts(subscribe=True, topicid=topic) for topic in topics]
        ).SerializeToString()


def bad_signatures(each: int) -> Iterator[bytes]:
    """So many in each RPC."""
    bad = Message(from_id=id_of(_KEYS[0]), topicIDs=[TOPIC], signature=bytes(64))
    for n in count():
        rpc = RPC(publish=[bad] * each)
        for k, message in enumerate(rpc.publish):
            message.seqno = (n << 16 | k).to_bytes(8, "big")
        yield rpc.SerializeToString()


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


def costly_sender_records() -> Iterator[bytes]:
    key = costly_key()
    record = PeerRecord(ID.from_pubkey(key), [Multiaddr("/ip4/10.0.0.1/tcp/1")], 1)
    envelope = Envelope(
        key, PEER_RECORD_ENVELOPE_PAYLOAD_TYPE, record.marshal_record(), bytes(512)
    ).marshal_envelope()
    return always(RPC(senderRecord=envelope))()


def sender_records_of_many_addresses() -> Iterator[bytes]:
    addresses = [Multiaddr(f"/ip4/10.0.{n >> 8}.{n & 255}/tcp/1") for n in range(5000)]
    for seq in count(1):
        yield RPC(senderRecord=sealed(_KEYS[0], *addresses, seq=seq)).SerializeToString()


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
        address = Multiaddr("/ip4/10.0.0.1/tcp/4001")
        made = {id_of(keys): sealed(keys, address, seq=seq) for keys in _KEYS}
        yield frame(m.ShuffleReply(tuple(made)), records=made)


def joins() -> Iterator[bytes]:
    for n in count():
        yield frame(*(m.Join(b"\x12\x20" + (n << 8 | k).to_bytes(32, "big"), 6) for k in range(60)))


KINDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "pairs": always(pairs()),
    "other topics": other_topics,
    "nothing": always(RPC()),
    "control": always(RPC(control=ControlMessage())),
    "bad signatures": partial(bad_signatures, 1),
    "many bad signatures": partial(bad_signatures, 2000),
    "costly keys": costly_keys,
    "many topics": always(RPC(publish=[Message(topicIDs=[TOPIC] * 3000)])),
    "costly sender records": costly_sender_records,
    "sender records of many addresses": sender_records_of_many_addresses,
    "grafts": grafts,
    "announcements": announcements,
    "leaves": leaves,
    "records": records,
    "joins": joins,
    "unknown fields": partial(repeat, b"\x78\x00" * 200_000),
    "empty messages": partial(repeat, b"\x12\x00" * 400_000),
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
