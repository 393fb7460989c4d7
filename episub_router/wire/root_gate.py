"""How much of ROOT one peer may have us act on: each new line is flooded to all neighbours."""

from __future__ import annotations

from episub_router.protocol.messages import Root
from episub_router.util.params import Rate

ROOT_RATE = Rate(50, 256)
"""Lines of ROOT, over all topics. Ours: 64 sources that each send a round every 4 s, as the core
does at most, make 16/s; a new neighbour offers 100 at once for each topic."""


class RootGate:
    """The token bucket of one peer."""

    __slots__ = ("_at", "_tokens")

    def __init__(self) -> None:
        self._tokens = float(ROOT_RATE.burst)
        self._at = 0.0

    def admit(self, root: Root, now: float) -> Root:
        """What of `root` may be acted on at `now` (s): its first lines, requests before roots."""
        grown = self._tokens + (now - self._at) * ROOT_RATE.per_second
        self._tokens = min(ROOT_RATE.burst, grown)
        self._at = now
        wanted = len(root.requests) + len(root.roots)
        allowed = min(wanted, int(self._tokens))
        self._tokens -= allowed
        if allowed == wanted:
            return root
        requests = root.requests[:allowed]
        return Root(root.roots[: allowed - len(requests)], requests)
