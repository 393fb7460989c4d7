"""How large the overlay is, as far as one node can tell, and view sizes that follow (E01).

The estimator counts collisions: of s ids drawn at random from N, about s²/2N pairs are
equal, so N is about s(s-1)/2c where c pairs are (Massoulié et al., "Peer counting and
sampling in overlay networks", PODC 2006, where the draws are the ends of random walks). Here
the draws are the ids in the SHUFFLEs that walk past. They are not quite independent, as a
node offers many of the same ids again, so N comes out too small where it is large.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace

from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.types import NEVER, PeerId, Time

_LEAST_COLLISIONS = 20
"""Pairs for an estimate that is good to a quarter or so."""

_HYSTERESIS = 0.6
"""How far log10(N) must be from the present C_rand to change it; 0.5 would be rounding."""


class Sizing:
    """Counts the last `size_window` ids, and sets the sizes each `size_interval`."""

    __slots__ = ("_counts", "_overlay", "_pairs", "_samples", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._samples: deque[PeerId] = deque()
        self._counts: Counter[PeerId] = Counter()
        self._pairs = 0
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        if self._overlay.params.dynamic_sizing:
            self.deadline = now + self._overlay.jittered(self._overlay.params.size_interval)

    def saw(self, peers: Iterable[PeerId]) -> None:
        """Ids that walked past."""
        for peer in peers:
            self._pairs += self._counts[peer]
            self._counts[peer] += 1
            self._samples.append(peer)
        while len(self._samples) > self._overlay.params.size_window:
            oldest = self._samples.popleft()
            self._counts[oldest] -= 1
            self._pairs -= self._counts[oldest]
            if not self._counts[oldest]:
                del self._counts[oldest]

    @property
    def estimate(self) -> float | None:
        """Nodes in the overlay; None until enough ids were seen."""
        if self._pairs < _LEAST_COLLISIONS:
            return None
        samples = len(self._samples)
        return samples * (samples - 1) / 2 / self._pairs

    def fire(self, now: Time) -> None:
        """Bring C_rand to log10(N) within its bounds, A and P with it."""
        overlay = self._overlay
        params = overlay.params
        self.start(now)
        nodes = self.estimate
        if nodes is None or abs(math.log10(nodes) - params.random_links) < _HYSTERESIS:
            return
        wanted = min(max(round(math.log10(nodes)), params.least_random), params.most_random)
        if wanted != params.random_links:
            grown = wanted - params.random_links
            ratio = params.passive_size // params.active_size
            active = params.active_size + grown
            overlay.params = replace(
                params, random_links=wanted, active_size=active, passive_size=ratio * active
            )
            overlay.passive.resize(ratio * active, overlay.rng)

    def stop(self) -> None:
        self._samples.clear()
        self._counts.clear()
        self._pairs = 0
        self.deadline = NEVER
