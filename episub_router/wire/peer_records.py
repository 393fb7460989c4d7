"""Signed peer records: what one may hold, and whether it is its peer's own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import DecodeError
from libp2p.peer.envelope import consume_envelope
from libp2p.peer.id import ID
from libp2p.peer.pb import envelope_pb2, peer_record_pb2
from libp2p.peer.peer_record import PEER_RECORD_ENVELOPE_DOMAIN
from multiaddr import Multiaddr

from episub_router.wire.keys import is_affordable
from episub_router.wire.limits import DEFAULT_LIMITS, WireLimits

MAX_ADDRESSES = 32
"""Addresses in one record; chosen: a host with many interfaces has fewer."""


class RecordFault(Enum):
    """Why a peer record was refused. The value is the counter's name."""

    TOO_LARGE = "record-too-large"  # A peer record beyond the limit
    MALFORMED = "record-malformed"
    """No envelope around a peer record, or a bad key or signature."""
    KEY_COSTLY = "record-key-costly"
    """Its signature would take too long to check."""
    WRONG_PEER = "record-wrong-peer"
    """About another peer than said, or signed by another."""
    NO_ADDRESSES = "record-no-addresses"
    """None at all, or none that can be read."""
    TOO_MANY_ADDRESSES = "record-too-many-addresses"  # A peer record with more than are read
    STALE = "record-stale"
    """Not newer than the record that we hold."""


@dataclass(frozen=True, slots=True)
class VerifiedRecord:
    """A record that its peer signed."""

    envelope: bytes
    seq: int
    addresses: tuple[Multiaddr, ...]
    """Those that can be read, in the record's order."""


def verify_record(
    peer: bytes, data: bytes, held_seq: int, limits: WireLimits = DEFAULT_LIMITS
) -> VerifiedRecord | RecordFault:
    """The record in the envelope `data`, if `peer` signed it and it is newer than `held_seq`."""
    # Cheap refusals first: checking a signature takes 60 us (Ed25519) to 600 us (RSA).
    excess = record_excess(data, limits)
    if excess is not None:
        return excess
    try:
        outer = envelope_pb2.Envelope.FromString(data)
        inner = peer_record_pb2.PeerRecord.FromString(outer.payload)
        if inner.peer_id != peer:
            return RecordFault.WRONG_PEER
        if inner.seq <= held_seq:
            return RecordFault.STALE
        envelope, record = consume_envelope(data, PEER_RECORD_ENVELOPE_DOMAIN)
        # consume_envelope leaves open whose key signed.
        if ID.from_pubkey(envelope.public_key).to_bytes() != peer:
            return RecordFault.WRONG_PEER
    except Exception:
        # libp2p and the key libraries below it raise nearly anything for bad bytes.
        return RecordFault.MALFORMED
    addresses = tuple(filter(_is_readable, record.addrs))
    return VerifiedRecord(data, record.seq, addresses) if addresses else RecordFault.NO_ADDRESSES


def record_excess(data: bytes, limits: WireLimits = DEFAULT_LIMITS) -> RecordFault | None:
    """Why the record in the envelope `data` would cost too much, if it would: py-libp2p takes
    2 s to store 5,000 addresses. One that can't be read costs nothing."""
    if len(data) > limits.max_record_bytes:
        return RecordFault.TOO_LARGE
    try:
        outer = envelope_pb2.Envelope.FromString(data)
        if len(peer_record_pb2.PeerRecord.FromString(outer.payload).addresses) > MAX_ADDRESSES:
            return RecordFault.TOO_MANY_ADDRESSES
    except DecodeError:
        return None
    is_cheap = is_affordable(outer.public_key.SerializeToString())
    return None if is_cheap else RecordFault.KEY_COSTLY


def _is_readable(address: Multiaddr) -> bool:
    # Multiaddr takes any bytes, and raises only when it is read.
    try:
        return bool(str(address))
    except Exception:
        return False
