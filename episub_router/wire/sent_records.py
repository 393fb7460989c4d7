"""Which address records a peer was sent over its connection, so that none is sent twice soon.

Lists, walks and samples name the same peers again and again, and a signed record is five times as
long as the peer id that it belongs to.
"""

from __future__ import annotations

from episub_router.util.bounded import put_last

AGAIN_AFTER = 300.0
"""Seconds after which a record is sent again: the receiver may not have kept it. Chosen: views have
changed by then, and at that rate it costs next to nothing."""

MAX_REMEMBERED = 128
"""Records remembered for one connection, the oldest forgotten first. Chosen: what neighbours name
to each other, their neighbours and most of a passive view, several times."""


class SentRecords:
    """The records sent over one connection. A frame's records count once it is on its way."""

    __slots__ = ("_in_frame", "_sent")

    def __init__(self) -> None:
        self._sent: dict[bytes, tuple[bytes, float]] = {}
        """The record of each peer, and when it was sent, the oldest first."""
        self._in_frame: dict[bytes, bytes] = {}
        """Records in the frame that is being made."""

    def begin_frame(self) -> None:
        """A frame is made; the one before may have found no room."""
        self._in_frame = {}

    def attach(self, peer: bytes, record: bytes | None, now: float) -> bytes | None:
        """`record` of `peer`, if it is to go into this frame."""
        if record is None or self._in_frame.get(peer) == record:
            return None
        sent, at = self._sent.get(peer, (b"", 0.0))
        if sent == record and now < at + AGAIN_AFTER:
            return None
        self._in_frame[peer] = record
        return record

    def note_frame_sent(self, now: float) -> None:
        """The frame is in the queue."""
        for peer, record in self._in_frame.items():
            put_last(self._sent, peer, (record, now), MAX_REMEMBERED)
        self._in_frame = {}

    def clear(self) -> None:
        """The connection or its stream ended, and perhaps what was in the queue with it."""
        self._sent.clear()
        self._in_frame = {}
