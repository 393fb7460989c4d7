"""Open requests: peers that we asked for a link by name, and what ties their answers to that (E09).

As for JOINs (`open_joins`), each brings one link at most. But only the peer that was asked sees the
request, so that the nonce need not be hard to guess.
"""

from __future__ import annotations

from episub_router.protocol.types import PeerId, Time

REQUEST_LIFETIME = 120.0
"""Seconds in which a request can be answered. Ours: as long as a peer that refused isn't asked."""

MAX_OPEN_REQUESTS = 64
"""Requests remembered. Ours: several times the active view."""


class OpenRequests:
    """Our requests that nobody has answered yet, by the peer that was asked, oldest first."""

    __slots__ = ("_count", "_sent")

    def __init__(self) -> None:
        self._count = 0
        self._sent: dict[PeerId, tuple[int, Time]] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def open(self, peer: PeerId, now: Time) -> int:
        """The nonce of a request to `peer` that is being sent; it takes an older one's place."""
        self._count = self._count % 0xFFFF_FFFF + 1
        self._sent.pop(peer, None)
        while self._sent:
            oldest = next(iter(self._sent))
            if now - self._sent[oldest][1] < REQUEST_LIFETIME:
                break
            del self._sent[oldest]
        self._sent[peer] = self._count, now
        if len(self._sent) > MAX_OPEN_REQUESTS:
            del self._sent[next(iter(self._sent))]
        return self._count

    def take(self, peer: PeerId, nonce: int, now: Time) -> bool:
        """Whether an ACCEPT of `peer` with this nonce answers a request, which it uses up. Peers of
        before send none."""
        asked, at = self._sent.get(peer, (0, now))
        if not asked or nonce not in (0, asked):
            return False
        del self._sent[peer]
        return now - at < REQUEST_LIFETIME

    def clear(self) -> None:
        self._sent.clear()
