"""Where peers are that we may want to dial or to name to others.

libp2p's peerstore forgets addresses after two minutes; a passive view lives longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice, zip_longest

from multiaddr import Multiaddr

from episub_router.util.bounded import put_last
from episub_router.wire.peer_records import RecordFault, VerifiedRecord, verify_record

MAX_PEERS = 4096
"""Records; chosen: the views of about a hundred topics."""

INFORMANTS_SHARE = 8
"""Part of the book that one peer can fill with records of others: an eighth; chosen: eight peers
would have to agree on flushing it."""

MAX_FOUND = 256
"""Peers that the bootstrap list or a discovery named whose addresses are kept; chosen."""

_LOOKED_AT = 64
"""Records looked at for one to forget, so that a book full of peers in use costs no more."""

DIALLED_ADDRESSES = 3
"""Addresses of one peer that are tried, in turn; chosen."""


@dataclass(eq=False)
class AddressBook:
    """Verified signed peer records by peer id, the least recently used forgotten first; and the
    addresses that the application and its discoveries gave, which nobody signed.

    One informant's records take up an eighth of the book at most: beyond, its own make room. Peers
    that are `in_use` are forgotten last. `refused` counts the records that `learn` turned down,
    by reason.
    """

    max_peers: int = MAX_PEERS
    in_use: Callable[[bytes], bool] = lambda peer: False

    def __post_init__(self) -> None:
        self._found: dict[bytes, tuple[Multiaddr, ...]] = {}
        """What the bootstrap list and discoveries said, the peer found longest ago first."""
        self._records: dict[bytes, tuple[VerifiedRecord, bytes]] = {}
        """The one used longest ago first, and the peer that sent it first: the subject itself, if
        it did."""
        self._named: dict[bytes, dict[bytes, None]] = {}
        """The subjects of each informant's records, the oldest first."""
        self.refused: Counter[RecordFault] = Counter()

    def __len__(self) -> int:
        return len(self._records)

    def found(self, peer: bytes, addresses: tuple[Multiaddr, ...]) -> None:
        """A discovery says that `peer` is at `addresses`."""
        put_last(self._found, peer, addresses, MAX_FOUND)

    def learn(self, peer: bytes, envelope: bytes, informant: bytes | None = None) -> bool:
        """Verify and keep `envelope`, said by `informant` to be `peer`'s signed peer record.

        Without an `informant` it is `peer`'s own word. True if it is the record held now. An older
        record never replaces a newer one. Never raises: a bad record is counted in `refused`.
        """
        known, first = self._touch(peer)
        if known is not None and known.envelope == envelope:
            return True
        informant = informant or peer
        if first is not None and informant != peer:
            informant = first
        result = verify_record(peer, envelope, -1 if known is None else known.seq)
        if isinstance(result, RecordFault):
            self.refused[result] += 1
            return False
        if known is not None:
            self._forget(peer)
        self._records[peer] = result, informant
        named = self._named.setdefault(informant, {})
        named[peer] = None
        if len(named) > max(1, self.max_peers // INFORMANTS_SHARE):
            self._forget_one_of(named)
        if len(self._records) > self.max_peers:
            self._forget_one_of(self._records)
        return peer in self._records

    def informant(self, peer: bytes) -> bytes | None:
        """The peer on whose word alone we know where `peer` is, which may be its own; None if it is
        a discovery's."""
        _, informant = self._records.get(peer, (None, None))
        return None if peer in self._found else informant

    def record(self, peer: bytes) -> bytes | None:
        """The signed peer record of `peer` as envelope bytes; None if unknown."""
        record, _ = self._touch(peer)
        return record.envelope if record is not None else None

    def addresses(self, peer: bytes) -> tuple[Multiaddr, ...]:
        """The readable addresses in `peer`'s record and those that were found, in turn: neither
        crowds the other out where few are tried."""
        record, _ = self._touch(peer)
        signed = record.addresses if record is not None else ()
        turns = zip_longest(signed, self._found.get(peer, ()))
        return tuple(address for turn in turns for address in turn if address is not None)

    def _touch(self, peer: bytes) -> tuple[VerifiedRecord, bytes] | tuple[None, None]:
        """The record of `peer`, and who sent it; it is used now."""
        held = self._records.pop(peer, None)
        if held is None:
            return None, None
        self._records[peer] = held
        return held

    def _forget_one_of(self, peers: Iterable[bytes]) -> None:
        """The first that isn't in use, or else the first."""
        looked_at = list(islice(peers, _LOOKED_AT))
        self._forget(next((peer for peer in looked_at if not self.in_use(peer)), looked_at[0]))

    def _forget(self, peer: bytes) -> None:
        _, informant = self._records.pop(peer)
        named = self._named[informant]
        del named[peer]
        if not named:
            del self._named[informant]
