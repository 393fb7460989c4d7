"""Signed peer records of peers that we may want to dial or to name to others.

libp2p's peerstore forgets addresses after two minutes; a passive view lives longer.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from libp2p.peer.envelope import consume_envelope
from libp2p.peer.id import ID
from libp2p.peer.pb import envelope_pb2, peer_record_pb2
from libp2p.peer.peer_record import PEER_RECORD_ENVELOPE_DOMAIN
from multiaddr import Multiaddr

from episub_router.wire.keys import is_affordable
from episub_router.wire.limits import DEFAULT_LIMITS as WIRE_LIMITS
from episub_router.wire.limits import WireLimits

MAX_PEERS = 4096
"""Records; ours: the passive views (42 peers) of about a hundred topics."""

TELLERS_SHARE = 8
"""Part of the book that one peer can fill with records of others: an eighth; ours: eight peers
would have to agree on flushing it."""

_LOOKED_AT = 64
"""Records looked at for one to forget, so that a book full of peers in use costs no more."""

MAX_ADDRESSES = 32
"""Addresses in one record; ours: a host with many interfaces has fewer."""

DIALLED_ADDRESSES = 3
"""Addresses of one peer that are tried, in turn; ours."""


class RecordFault(Enum):
    """Why a peer record was refused. The value is the counter's name."""

    TOO_LARGE = "record-too-large"
    MALFORMED = "record-malformed"
    """No envelope around a peer record, or a bad key or signature."""
    KEY_COSTLY = "record-key-costly"
    """Its signature would take too long to check."""
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
    teller: bytes
    """The peer that sent it first; the subject itself, if it did."""


class AddressBook:
    """Verified signed peer records by peer id, the least recently used forgotten first.

    One teller's records take up an eighth of the book at most: beyond, its own make room. Peers
    that are `in_use` are forgotten last. `refused` counts the records that `learn` turned down,
    by reason.
    """

    def __init__(
        self,
        max_peers: int = MAX_PEERS,
        wire_limits: WireLimits = WIRE_LIMITS,
        in_use: Callable[[bytes], bool] = lambda peer: False,
    ) -> None:
        self._max_peers = max_peers
        self._in_use = in_use
        self._named: dict[bytes, OrderedDict[bytes, None]] = {}
        """The subjects of each teller's records, the oldest first."""
        self._max_record_bytes = wire_limits.max_record_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.refused: Counter[RecordFault] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, peer: bytes, envelope: bytes, teller: bytes | None = None) -> bool:
        """Verify and keep `envelope`, said by `teller` to be `peer`'s signed peer record.

        Without a `teller` it is `peer`'s own word. True if it is the record held now. An older
        record never replaces a newer one. Never raises: a bad record is counted in `refused`.
        """
        known = self._entries.get(peer)
        if known is not None and known.envelope == envelope:
            self._entries.move_to_end(peer)
            return True
        named_by = teller or peer
        if known is not None and named_by != peer:
            named_by = known.teller
        result = self._verify(peer, envelope, known.seq if known is not None else -1, named_by)
        if isinstance(result, RecordFault):
            self.refused[result] += 1
            return False
        if known is not None:
            self._forget(peer)
        self._entries[peer] = result
        named = self._named.setdefault(named_by, OrderedDict())
        named[peer] = None
        if len(named) > max(1, self._max_peers // TELLERS_SHARE):
            self._forget_one_of(named)
        if len(self._entries) > self._max_peers:
            self._forget_one_of(self._entries)
        return peer in self._entries

    def teller(self, peer: bytes) -> bytes | None:
        """The peer on whose word we have `peer`'s record; None if it is its own, or unknown."""
        entry = self._entries.get(peer)
        return entry.teller if entry is not None and entry.teller != peer else None

    def _forget_one_of(self, peers: Iterable[bytes]) -> None:
        """The first that isn't in use, or else the first."""
        looked_at = list(islice(peers, _LOOKED_AT))
        self._forget(next((peer for peer in looked_at if not self._in_use(peer)), looked_at[0]))

    def _forget(self, peer: bytes) -> None:
        teller = self._entries.pop(peer).teller
        named = self._named[teller]
        del named[peer]
        if not named:
            del self._named[teller]

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

    def _verify(
        self, peer: bytes, data: bytes, held_seq: int, teller: bytes
    ) -> _Entry | RecordFault:
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
            if not is_affordable(outer.public_key.SerializeToString()):
                return RecordFault.KEY_COSTLY
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
        return _Entry(data, record.seq, addresses, teller)


def _is_readable(address: Multiaddr) -> bool:
    # Multiaddr takes any bytes, and raises only when it is read.
    try:
        return bool(str(address))
    except Exception:
        return False
