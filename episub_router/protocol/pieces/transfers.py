"""The messages under way in pieces, and those that are whole and kept for others; bounded."""

from __future__ import annotations

from collections.abc import Iterator

from episub_router.protocol.piece_messages import MAX_WANTS, Preamble
from episub_router.protocol.pieces.cutting import MAX_SIZE
from episub_router.protocol.pieces.transfer import Transfer
from episub_router.protocol.types import MessageId, PeerId, SourceId, Time
from episub_router.util.bounded import put_last

MAX_UNFINISHED = MAX_WANTS
"""Messages under way at a time; ours: 64 of 1 MB fill the memory below."""

MAX_OF_ONE_SOURCE = 16
"""Unfinished messages of one source, and of one neighbour that announced them first. Ours: a
quarter, so that four have to lie before there is no room for others."""

MAX_UNFINISHED_BYTES = 4 * MAX_SIZE
"""Announced bytes of all unfinished messages."""

MAX_BYTES_OF_ONE = 2 * MAX_SIZE
"""Likewise of one source, and of one neighbour that announced them first."""

IDLE_AFTER = 1.0
"""Seconds without a piece after which a message gives way to others. Chosen: several times the way
through a thousand nodes; each node passes on no more made-up preambles than have room in that."""

MAX_KEPT_BYTES = 2 * MAX_SIZE
"""Bytes of whole messages that are kept for others; the oldest go first."""

MAX_KEPT = 1024
"""Likewise their number, which small ones would else multiply. Ours: 22 a second for the 45 s that
each is kept."""

MAX_FORGOTTEN = 4096
"""Ids remembered of messages that were whole, or given up, and aren't kept any more."""


class Transfers:
    """Every message in pieces that this node knows of, by id."""

    __slots__ = ("_announced_bytes", "_by_bringer", "_by_source", "_forgotten", "_kept_bytes",
                 "_unfinished", "_whole")  # fmt: skip

    def __init__(self) -> None:
        self._unfinished: dict[MessageId, Transfer] = {}
        self._whole: dict[MessageId, Transfer] = {}
        """In the order in which they became whole."""
        self._forgotten: dict[MessageId, bool] = {}
        """Whether each was given up."""
        self._announced_bytes = 0
        self._kept_bytes = 0
        self._by_source: dict[SourceId, tuple[int, int]] = {}
        """Unfinished messages and their bytes."""
        self._by_bringer: dict[PeerId, tuple[int, int]] = {}

    def __contains__(self, id: MessageId) -> bool:
        """Whether the message is under way, kept, or known to be over."""
        return id in self._unfinished or id in self._whole or id in self._forgotten

    def is_lost(self, id: MessageId) -> bool:
        """Whether the message was given up: its pieces don't come any more."""
        return self._forgotten.get(id, False)

    def get(self, id: MessageId) -> Transfer | None:
        """The message, if it is under way or kept."""
        return self._unfinished.get(id) or self._whole.get(id)

    def unfinished(self) -> Iterator[Transfer]:
        return iter(list(self._unfinished.values()))

    def whole(self) -> Iterator[Transfer]:
        return iter(list(self._whole.values()))

    def is_unfinished(self, id: MessageId) -> bool:
        return id in self._unfinished

    def count_unfinished(self) -> int:
        return len(self._unfinished)

    def of_source(self, source: SourceId) -> Iterator[Transfer]:
        """The messages of `source` that are under way, and those that are kept."""
        every = (*self._whole.values(), *self._unfinished.values())
        return (transfer for transfer in every if transfer.preamble.source == source)

    def is_under_way(self, source: SourceId) -> bool:
        """Whether any message of `source` isn't whole yet."""
        return any(transfer.preamble.source == source for transfer in self._unfinished.values())

    def make_room(self, preamble: Preamble, bringer: PeerId, now: Time) -> bool:
        """Whether one more message may be under way. Older ones without a piece give way to it, as
        a preamble costs its author nothing: within a share that is full, or of all."""
        while (rivals := self._rivals(preamble, bringer)) is not None:
            before = now - IDLE_AFTER
            idle = (t for t in rivals if not t.have and t.announced_at <= before)
            first = next(idle, None)
            if first is None:
                return False
            self._take_out(first)
        return True

    def _rivals(self, preamble: Preamble, bringer: PeerId) -> Iterator[Transfer] | None:
        """The messages that leave no room for this one, oldest first; None if there is room."""
        size, source = preamble.size, preamble.source

        def is_full(share: tuple[int, int] | None) -> bool:
            return share is not None and (
                share[0] >= MAX_OF_ONE_SOURCE or share[1] + size > MAX_BYTES_OF_ONE
            )

        if is_full(self._by_source.get(source)):
            return (t for t in self.unfinished() if t.preamble.source == source)
        if is_full(self._by_bringer.get(bringer)):
            return (t for t in self.unfinished() if t.first_bringer == bringer)
        full = len(self._unfinished) >= MAX_UNFINISHED
        if full or self._announced_bytes + size > MAX_UNFINISHED_BYTES:
            return self.unfinished()
        return None

    def add(self, transfer: Transfer) -> None:
        """A message is under way."""
        self._unfinished[transfer.preamble.id] = transfer
        self._count(transfer, 1)

    def finish(self, transfer: Transfer, now: Time) -> None:
        """A message is whole: keep it for others, in place of older ones if need be."""
        self._take_out(transfer)
        transfer.whole_at = now
        self._whole[transfer.preamble.id] = transfer
        self._kept_bytes += transfer.preamble.size
        while len(self._whole) > 1 and (
            self._kept_bytes > MAX_KEPT_BYTES or len(self._whole) > MAX_KEPT
        ):
            self._forget_oldest()

    def give_up(self, transfer: Transfer) -> None:
        """A message doesn't come."""
        self._take_out(transfer)
        self._remember(transfer.preamble.id, is_lost=True)

    def expire(self, before: Time) -> None:
        """Keep nothing that became whole before that time."""
        while self._whole:
            oldest = next(iter(self._whole.values()))
            if oldest.whole_at is None or oldest.whole_at > before:
                return
            self._forget_oldest()

    def clear(self) -> None:
        """Forget everything but the ids."""
        for transfer in self.unfinished():
            self.give_up(transfer)
        while self._whole:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        id = next(iter(self._whole))
        self._kept_bytes -= self._whole.pop(id).preamble.size
        self._remember(id, is_lost=False)

    def _remember(self, id: MessageId, *, is_lost: bool) -> None:
        put_last(self._forgotten, id, is_lost, MAX_FORGOTTEN)

    def _take_out(self, transfer: Transfer) -> None:
        if self._unfinished.pop(transfer.preamble.id, None) is not None:
            self._count(transfer, -1)

    def _count(self, transfer: Transfer, sign: int) -> None:
        preamble = transfer.preamble
        self._announced_bytes += sign * preamble.size
        keys = ((self._by_source, preamble.source), (self._by_bringer, transfer.first_bringer))
        for table, key in keys:
            messages, size = table.get(key, (0, 0))
            table[key] = messages + sign, size + sign * preamble.size
            if not table[key][0]:
                del table[key]
