"""Each control message in a frame, in a table that has how its fields are written, and how they are
read with suspicion. Fields have the names of proto/episub.proto in the core's messages, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import messages as m
from episub_router.protocol import piece_messages as pm
from episub_router.protocol.pieces.cutting import HASH_BYTES, is_sound
from episub_router.protocol.plumtree.round_proofs import PROOF_BYTES, ROUNDS
from episub_router.wire.authorship import Authorship, needed_key
from episub_router.wire.frame import PartDropped, WireFault
from episub_router.wire.limits import WireLimits
from episub_router.wire.source import SOURCE_BYTES, id_bytes, source_bytes, source_id

Records: TypeAlias = Callable[[bytes], bytes | None]
"""The signed peer record (envelope bytes) of a peer id; None when there is none."""

Part: TypeAlias = "_Field | _Peer | _Each | _Message"
"""A field, or a whole message: `write` gives a value as protobuf takes it, messages as dictionaries
of their fields, which is twice as fast; it raises TypeError for ids and sources that aren't bytes.
`read` gives the value that protobuf has, or raises PartDropped."""

_T = TypeVar("_T")

_IDENTITY, _SHA2_256 = 0x00, 0x12
_MAX_INLINE_KEY = 42
"""Longest public key that libp2p puts into a peer id instead of its hash."""

_MAX_COST = 2**32 - 1
"""Microseconds; what the field holds."""

_MOST_HASHES = 9
"""In a proof: levels of a tree of 512 pieces."""


class Reader:
    """Reads the parts of one frame, and collects its faults and peer records.

    The methods that read one thing raise PartDropped; `each` turns that into a fault.
    """

    def __init__(self, limits: WireLimits) -> None:
        self.limits = limits
        self.faults: list[WireFault] = []
        self.records: list[tuple[bytes, bytes]] = []

    def each(
        self, items: Any, read: Callable[[Any], _T], bound: int, excess: WireFault
    ) -> Iterator[_T]:
        for item in islice(items, bound):
            try:
                yield read(item)
            except PartDropped as drop:
                self.faults.append(drop.fault)
        if len(items) > bound:
            self.faults.append(excess)

    def topic(self, value: object) -> str:
        # protobuf hands proto2 strings that aren't UTF-8 out as bytes.
        if not isinstance(value, str):
            raise PartDropped(WireFault.BAD_TOPIC)
        if not 1 <= len(value.encode()) <= self.limits.max_topic_bytes:
            raise PartDropped(WireFault.BAD_TOPIC)
        return value

    def peer_id(self, value: bytes) -> bytes:
        """A multihash as libp2p makes them of public keys: identity if short, else SHA2-256."""
        if len(value) < 2 or value[1] != len(value) - 2:
            raise PartDropped(WireFault.BAD_PEER_ID)
        code, length = value[0], value[1]
        if not (
            (code == _SHA2_256 and length == 32)
            or (code == _IDENTITY and 1 <= length <= _MAX_INLINE_KEY)
        ):
            raise PartDropped(WireFault.BAD_PEER_ID)
        return value

    def peer(self, info: pb.PeerInfo) -> bytes:
        peer_id = self.peer_id(info.peerID)
        if record := info.signedPeerRecord:
            if len(record) > self.limits.max_record_bytes:
                self.faults.append(WireFault.RECORD_TOO_LARGE)
            elif len(self.records) < self.limits.max_records:
                self.records.append((peer_id, record))
            elif WireFault.TOO_MANY_RECORDS not in self.faults:
                self.faults.append(WireFault.TOO_MANY_RECORDS)
        return peer_id

    def message_id(self, value: bytes) -> bytes:
        if not 1 <= len(value) <= self.limits.max_message_id_bytes:
            raise PartDropped(WireFault.BAD_MESSAGE_ID)
        return value

    def source(self, value: bytes) -> bytes:
        if len(value) != SOURCE_BYTES:
            raise PartDropped(WireFault.BAD_SOURCE)
        return value

    def hops(self, value: int) -> int:
        if not 1 <= value <= self.limits.max_hops:
            raise PartDropped(WireFault.HOPS_RANGE)
        return value

    def ttl(self, value: int) -> int:
        if value > self.limits.max_ttl:
            raise PartDropped(WireFault.TTL_RANGE)
        return value

    def proof_of_leave(self, value: bytes) -> bytes:
        if not 1 <= len(value) <= self.limits.max_proof_bytes:
            raise PartDropped(WireFault.BAD_PROOF)
        return value

    def proof_of_round(self, value: bytes) -> bytes:
        if len(value) != PROOF_BYTES:
            raise PartDropped(WireFault.BAD_PROOF)
        return value

    def mask(self, value: bytes) -> int:
        if len(value) * 8 > self.limits.max_pieces:
            raise PartDropped(WireFault.BAD_MASK)
        return int.from_bytes(value, "little")

    def hashes(self, value: bytes) -> tuple[bytes, ...]:
        if len(value) % HASH_BYTES or len(value) > _MOST_HASHES * HASH_BYTES:
            raise PartDropped(WireFault.BAD_PIECE)
        return tuple(value[at : at + HASH_BYTES] for at in range(0, len(value), HASH_BYTES))

    def preamble(self, body: pb.Preamble) -> pm.Preamble:
        limits = self.limits
        id, author = self.message_id(body.id), self.peer_id(body.author)
        if (
            not 1 <= len(body.seqno) <= limits.max_seqno_bytes
            or len(body.key) > limits.max_key_bytes
            or len(body.signature) > limits.max_signature_bytes
        ):
            raise PartDropped(WireFault.BAD_PREAMBLE)
        key = needed_key(author, body.key)
        envelope = Authorship(author, body.seqno, key, body.signature)
        made = pm.Preamble(id, source_id(author), body.size, body.piece_size, body.root, envelope)
        if not body.piece_size or not is_sound(made):
            raise PartDropped(WireFault.BAD_PREAMBLE)
        return made


@dataclass(frozen=True, slots=True)
class _Field:
    """A single value. What protobuf gets as None is left out."""

    to_wire: Callable[[Any], Any] = lambda value: value
    read: Callable[[Reader, Any], Any] = lambda _, value: value

    def write(self, value: Any, records: Records) -> Any:
        return self.to_wire(value)


class _Peer:
    """A peer, with its address record."""

    def write(self, value: Any, records: Records) -> dict[str, bytes | None]:
        peer = id_bytes(value)
        return {"peerID": peer, "signedPeerRecord": records(peer)}

    def read(self, reader: Reader, value: pb.PeerInfo) -> bytes:
        return reader.peer(value)


@dataclass(frozen=True, slots=True)
class _Each:
    """At most as many of a kind as a limit says."""

    part: Part
    limit: str
    excess: WireFault

    def write(self, value: Any, records: Records) -> list[Any]:
        write = self.part.write
        return [write(each, records) for each in value]

    def read(self, reader: Reader, value: Any) -> tuple[Any, ...]:
        bound, read = getattr(reader.limits, self.limit), partial(self.part.read, reader)
        return tuple(reader.each(value, read, bound, self.excess))


class _Message:
    """A message, or a line of one, with its fields in the order in which they are read. `check`
    gets the whole before, as it came, and may raise PartDropped: of what is refused nothing is
    read."""

    def __init__(
        self,
        kind: type,
        check: Callable[[Reader, Any], None] = lambda *_: None,
        /,
        *,
        make: Callable[..., Any] | None = None,
        **fields: Part,
    ) -> None:
        self.kind = kind
        self._make = make or kind
        self._check = check
        self._writers = [(name, part.write) for name, part in fields.items()]
        self._readers = [(name, part.read) for name, part in fields.items()]

    def write(self, value: Any, records: Records) -> dict[str, Any]:
        return {name: write(getattr(value, name), records) for name, write in self._writers}

    def read(self, reader: Reader, value: Any) -> Any:
        self._check(reader, value)
        fields = {name: read(reader, getattr(value, name)) for name, read in self._readers}
        return self._make(**fields)


class _TreeMessage(_Message):
    """A message that would be about the shared tree without what it was about."""

    def read(self, reader: Reader, value: Any) -> Any:
        made = super().read(reader, value)
        if (value.sources or value.standby) and made == self.kind():
            raise PartDropped(WireFault.BAD_SOURCE)
        return made


def _mask_bytes(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _write_preamble(preamble: pm.Preamble) -> dict[str, Any]:
    envelope = preamble.envelope
    if not isinstance(envelope, Authorship):
        raise TypeError(f"the envelope of a preamble must be an Authorship: {envelope!r}")
    return {
        "id": id_bytes(preamble.id),
        "author": envelope.author,
        "seqno": envelope.seqno,
        "size": preamble.size,
        "piece_size": preamble.piece_size,
        "root": preamble.root,
        "key": envelope.key or None,
        "signature": envelope.signature or None,
    }


def _check_neighbor(reader: Reader, body: pb.Neighbor) -> None:
    # A value that a closed enum lacks looks as if the field were missing.
    if not body.HasField("role") or not body.HasField("kind"):
        raise PartDropped(WireFault.UNKNOWN_ENUM)
    if body.links > reader.limits.max_links or body.random_links > body.links:
        raise PartDropped(WireFault.LINKS_RANGE)


def _check_piece_graft(reader: Reader, body: pb.PieceGraft) -> None:
    if body.HasField("source"):
        reader.source(body.source)


def _check_piece(reader: Reader, body: pb.Piece) -> None:
    if (
        not 1 <= len(body.data) <= reader.limits.max_piece_bytes
        or body.index >= reader.limits.max_pieces
        or len(body.root) != HASH_BYTES
    ):
        raise PartDropped(WireFault.BAD_PIECE)


def _piece(**fields: Any) -> pm.Piece:
    return pm.Piece(**fields, size=len(fields["data"]))


_plain = _Field()
_unless_empty = _Field(lambda value: value or None)
_hops = _Field(read=Reader.hops)
_ttl = _Field(read=Reader.ttl)
_id = _Field(id_bytes, Reader.message_id)
_peer_id = _Field(id_bytes, Reader.peer_id)
_source = _Field(source_bytes, Reader.source)
_mask = _Field(_mask_bytes, Reader.mask)
_peer = _Peer()
_peers = _Each(_peer, "max_peers", WireFault.TOO_MANY_PEERS)
_sources = _Each(_source, "max_sources", WireFault.TOO_MANY_SOURCES)


_summary = _Message(m.MessageSummary, id=_id, hops=_hops)
_tree_root = _Message(
    m.TreeRoot,
    proof=_Field(read=Reader.proof_of_round),
    source=_source,
    round=_Field(read=lambda _, value: value % ROUNDS),
    cost=_Field(lambda cost: min(round(cost * 1e6), _MAX_COST), lambda _, value: value / 1e6),
)
_root_request = _Message(m.RootRequest, source=_source, round=_plain)
_tree_offer = _Message(pm.TreeOffer, source=_source, rank=_plain)
_want = _Message(pm.PieceWant, id=_id, missing=_mask)

_messages = (
    _Message(m.GetNodes, count=_unless_empty),
    _Message(m.Nodes, ttl=_ttl, peers=_peers),
    _Message(m.GetTopics),
    _Message(
        m.Topics,
        topics=_Each(_Field(read=Reader.topic), "max_topics", WireFault.TOO_MANY_TOPICS),
    ),
    _Message(m.Join, ttl=_ttl, peer=_peer),
    _Message(m.ForwardJoin, ttl=_ttl, peer=_peer),
    _Message(
        m.Neighbor,
        _check_neighbor,
        # The enums of the core have the numbers of those on the wire.
        role=_Field(read=lambda _, value: m.NeighborRole(value)),
        links=_plain,
        kind=_Field(read=lambda _, value: m.LinkKind(value)),
        peers=_peers,
        random_links=_plain,
        numbers_only=_unless_empty,
    ),
    _Message(m.Disconnect, alive=_plain),
    _Message(m.Leave, proof=_Field(read=Reader.proof_of_leave), source=_peer_id, ttl=_ttl),
    _Message(m.Shuffle, ttl=_ttl, peer=_peer, offered=_unless_empty, peers=_peers),
    _Message(m.ShuffleReply, peers=_peers),
    _Message(m.IHave, summary=_Each(_summary, "max_ids", WireFault.TOO_MANY_IDS)),
    _TreeMessage(
        m.Graft,
        ids=_Each(_id, "max_ids", WireFault.TOO_MANY_IDS),
        sources=_sources,
        standby=_sources,
    ),
    _TreeMessage(m.Prune, sources=_sources, standby=_sources),
    _Message(
        m.Root,
        roots=_Each(_tree_root, "max_sources", WireFault.TOO_MANY_SOURCES),
        requests=_Each(_root_request, "max_sources", WireFault.TOO_MANY_SOURCES),
    ),
    _Message(
        pm.PieceOffer,
        offers=_Each(_tree_offer, "max_sources", WireFault.TOO_MANY_SOURCES),
        accepted=_unless_empty,
    ),
    _Message(
        pm.PieceAnnounce, preamble=_Field(_write_preamble, Reader.preamble), have=_mask, hops=_hops
    ),
    _Message(
        pm.PieceGraft,
        _check_piece_graft,
        wants=_Each(_want, "max_wants", WireFault.TOO_MANY_IDS),
        source=_Field(
            lambda source: None if source is None else source_bytes(source),
            lambda _, value: value or None,
        ),
    ),
    _Message(
        pm.PiecePrune,
        source=_source,
        instead=_Each(_peer_id, "max_peers", WireFault.TOO_MANY_PEERS),
    ),
    _Message(
        pm.Piece,
        _check_piece,
        make=_piece,
        id=_id,
        root=_plain,
        index=_plain,
        data=_plain,
        proof=_Field(b"".join, Reader.hashes),
    ),
)

_control: Any = pb.Control.DESCRIPTOR
_fields = {field.message_type.name: field.name for field in _control.fields}
"""Of Control, by the message in it, which is called as the core's."""

_by_kind: dict[object, tuple[str, _Message]] = {
    message.kind: (_fields[message.kind.__name__], message) for message in _messages
}
_by_field = dict(_by_kind.values())


def write_message(message: m.Message, records: Records) -> dict[str, Any]:
    """The field of Control that is `message`. Raises TypeError for what isn't a control message,
    and for ids, sources and envelopes of another type."""
    if type(message) not in _by_kind:
        raise TypeError(f"not a control message: {message!r}")
    field, part = _by_kind[type(message)]
    return {field: part.write(message, records)}


def read_message(reader: Reader, control: pb.Control) -> m.Message:
    """The message in `control`. Raises PartDropped."""
    field = control.WhichOneof("message")
    if field is None:
        raise PartDropped(WireFault.UNKNOWN_MESSAGE)
    message: m.Message = _by_field[field].read(reader, getattr(control, field))
    return message
