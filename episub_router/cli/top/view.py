"""What `episub top` shows of a node: its neighbours and trees, rates, losses, and news."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from libp2p.peer.id import ID
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from episub_router.net.counters import ADVICE, Ordinary, Reason
from episub_router.snapshot import OverlaySnapshot

NEWS = 6
"""Lines on what happened last."""
MOST_TREES = 8
"""Trees that are shown, those used last."""

_LOSSES = (*(reason.value for reason in ADVICE), Reason.ERROR.value)


class View:
    """Takes snapshots of a topic; shows the last one, and what changed since the one before."""

    def __init__(self, topic: str, address: str) -> None:
        self._title = f"{topic} from {address}"
        self._overlay: OverlaySnapshot | None = None
        self._rates: dict[str, float] = {}
        self._before: tuple[float, Mapping[str, int]] | None = None
        self._messages = self._bytes = 0
        self._news: deque[str] = deque(maxlen=NEWS)

    def received(self, size: int) -> None:
        """The application got a message of `size` bytes."""
        self._messages += 1
        self._bytes += size

    def note(self, line: str) -> None:
        """Something happened."""
        self._news.append(line)

    def look(self, overlay: OverlaySnapshot, now: float) -> None:
        """`overlay` is how it is at `now`, in seconds."""
        counts = {
            "messages": self._messages,
            "bytes": self._bytes,
            "copies": overlay.counters.get(Ordinary.PAYLOADS_RECEIVED.value, 0),
            "pushed": overlay.counters.get(Ordinary.PAYLOADS_SENT.value, 0),
            "frames in": overlay.counters.get(Ordinary.FRAMES_RECEIVED.value, 0),
            "frames out": overlay.counters.get(Ordinary.FRAMES_SENT.value, 0),
        }
        if self._before is not None:
            at, before = self._before
            self._rates = {
                name: (count - before[name]) / (now - at) for name, count in counts.items()
            }
        self._before = (now, counts)
        self._overlay = overlay

    def rendered(self) -> RenderableType:
        """What there is to see."""
        overlay = self._overlay
        if overlay is None:
            return Text(f"{self._title}: joining")
        losses = {name: n for name in _LOSSES if (n := overlay.counters.get(name, 0))}
        rates = ", ".join(f"{name} {rate:,.1f}" for name, rate in self._rates.items())
        lost = ", ".join(f"{name} {n:,}" for name, n in losses.items()) or "none"
        parts: list[RenderableType] = [
            Text(self._title, style="bold"),
            Text(f"a second: {rates or '-'}"),
            Text(f"dropped or lost so far: {lost}; missing now: {overlay.missing}"),
            _neighbors(overlay),
        ]
        if overlay.trees:
            parts.append(_trees(overlay))
        parts += [Text(f"- {line}", style="dim") for line in self._news]
        return Group(*parts)


def _neighbors(overlay: OverlaySnapshot) -> Table:
    title = f"{len(overlay.active)} neighbours, {len(overlay.passive)} spare peers known"
    table = Table("neighbour", "kind", "RTT", "default tree", title=title, title_justify="left")
    for neighbor in overlay.active:
        rtt = "-" if neighbor.rtt is None else f"{neighbor.rtt * 1000:,.1f} ms"
        lane = "push" if neighbor.eager else "announce"
        table.add_row(_short(neighbor.peer), neighbor.kind.name.lower(), rtt, lane)
    return table


def _trees(overlay: OverlaySnapshot) -> Table:
    shown = overlay.trees[-MOST_TREES:]
    title = f"{len(overlay.trees)} trees of sources; those used last:"
    table = Table(
        "source", "parents", "children", "standbys", "away", title=title, title_justify="left"
    )
    for tree in reversed(shown):
        parents = [_short(peer) for peer in (tree.parent, tree.second_parent) if peer is not None]
        table.add_row(
            tree.source.hex()[:8],
            "this node" if tree.own else ", ".join(parents) or "-",
            str(len(tree.children)),
            str(len(tree.standbys)),
            f"{tree.cost * 1000:,.1f} ms",
        )
    return table


def _short(peer: ID) -> str:
    return str(peer)[-8:]
