"""Signed peer records of peers that we may want to dial or to name to others.

libp2p's peerstore forgets addresses after two minutes; a passive view lives longer.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import Enum

from libp2p.peer.envelope import consume_envelope
from libp2p.peer.id import ID
from libp2p.peer.pb import envelope_pb2, peer_record_pb2
from libp2p.peer.peer_record import PEER_RECORD_ENVELOPE_DOMAIN
from multiaddr import Multiaddr

from episub_router.wire.limits import DEFAULT_LIMITS as WIRE_LIMITS
from episub_router.wire.limits import WireLimits

MAX_PEERS = 4096
"""Records; ours: the passive views (42 peers) of about a hundred topics."""

MAX_ADDRESSES = 32
"""Addresses in one record; ours: a host with many interfaces has fewer."""

DIALLED_ADDRESSES = 3
"""Addresses of one peer that are tried, in turn; ours."""


class RecordFault(Enum):
    """Why a peer record was refused. The value is the counter's name."""

    TOO_LARGE = "record-too-large"
    MALFORMED = "record-malformed"
    """No envelope around a peer record, or a bad key or signature."""
    WRONG_PEER = "record-wrong-peer"
    """About another peer than said, or signed by another."""
    NO_ADDRESSES = "record-no-addresses"
    """None at all, or none that can be read."""
    TOO_MANY_ADDRESSES = "record-too-many-addresses"
    STALE = "record-stale"
    """Not newer than the record that we hold."""


@dataclass(frozen=True, slots=True)
class _Entry:
    envelope: bytes
    seq: int
    addresses: tuple[Multiaddr, ...]


class AddressBook:
    """Verified signed peer records by peer id, the least recently used forgotten first.

    `refused` counts the records that `learn` turned down, by reason.
    """

    def __init__(self, max_peers: int = MAX_PEERS, wire_limits: WireLimits = WIRE_LIMITS) -> None:
        self._max_peers = max_peers
        self._max_record_bytes = wire_limits.max_record_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.refused: Counter[RecordFault] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, peer: bytes, envelope: bytes) -> bool:
        """Verify and keep `envelope`, said to be `peer`'s signed peer record.

        True if it is the record held now. An older record never replaces a newer one. Never
        raises: a bad record is counted in `refused`.
        """
        known = self._entries.get(peer)
        if known is not None and known.envelope == envelope:
            self._entries.move_to_end(peer)
            return True
        result = self._verify(peer, envelope, known.seq if known is not None else -1)
        if isinstance(result, RecordFault):
            self.refused[result] += 1
            return False
        self._entries[peer] = result
        self._entries.move_to_end(peer)
        if len(self._entries) > self._max_peers:
            self._entries.popitem(last=False)
        return True

    def record(self, peer: bytes) -> bytes | None:
        """The signed peer record of `peer` as envelope bytes; None if unknown."""
        entry = self._touch(peer)
        return entry.envelope if entry is not None else None

    def addresses(self, peer: bytes) -> tuple[Multiaddr, ...]:
        """The readable addresses in `peer`'s record, in its order; empty if unknown."""
        entry = self._touch(peer)
        return entry.addresses if entry is not None else ()

    def _touch(self, peer: bytes) -> _Entry | None:
        if peer in self._entries:
            self._entries.move_to_end(peer)
        return self._entries.get(peer)

    def _verify(self, peer: bytes, data: bytes, held_seq: int) -> _Entry | RecordFault:
        if len(data) > self._max_record_bytes:
            return RecordFault.TOO_LARGE
        try:
            # Cheap refusals first: checking a signature takes 60 us (Ed25519) to 600 us (RSA).
            outer = envelope_pb2.Envelope.FromString(data)
            inner = peer_record_pb2.PeerRecord.FromString(outer.payload)
            if inner.peer_id != peer:
                return RecordFault.WRONG_PEER
            if inner.seq <= held_seq:
                return RecordFault.STALE
            if len(inner.addresses) > MAX_ADDRESSES:
                return RecordFault.TOO_MANY_ADDRESSES
            envelope, record = consume_envelope(data, PEER_RECORD_ENVELOPE_DOMAIN)
            # consume_envelope leaves open whose key signed.
            if ID.from_pubkey(envelope.public_key).to_bytes() != peer:
                return RecordFault.WRONG_PEER
        except Exception:
            # libp2p and the key libraries below it raise nearly anything for bad bytes.
            return RecordFault.MALFORMED
        addresses = tuple(filter(_is_readable, record.addrs))
        if not addresses:
            return RecordFault.NO_ADDRESSES
        return _Entry(data, record.seq, addresses)


def _is_readable(address: Multiaddr) -> bool:
    # Multiaddr takes any bytes, and raises only when it is read.
    try:
        return bool(str(address))
    except Exception:
        return False
