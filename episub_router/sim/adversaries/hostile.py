"""What hostile nodes of all routers have in common: a ring, and a time to strike."""

from __future__ import annotations

from collections.abc import Callable

from episub_router.protocol.messages import TreeRoot
from episub_router.sim.adversaries.ring import Ring
from episub_router.sim.routers.node import Node


class Hostile(Node):
    """Comes before a router's own `Node` among the bases of a class, which sets `ring`.

    Kinds override what they need of the hooks.
    """

    __slots__ = ()

    ring: Ring

    @property
    def striking(self) -> bool:
        """Whether the time to be hostile has come."""
        return self.loop.now >= self.ring.settings.at

    def strike(self) -> None:
        """The time to be hostile has come."""

    def on_learned(self, message: int) -> None:
        """The ring knows of `message` now."""

    def on_root_learned(self, root: TreeRoot) -> None:
        """The ring knows a new round of a source now."""

    def enter_ring(self) -> None:
        """Be a member of the ring from the start of this life to its end."""
        self.session.hostile = True
        self.trace_event("node", state="hostile")
        self.ring.up[self.id] = self
        self.loop.at(max(self.loop.now, self.ring.settings.at), self._strike, None)

    def _strike(self, _: None) -> None:
        if self.live:
            self.strike()

    def every(self, period: float, action: Callable[[], None]) -> None:
        """Call `action` now and then every `period` seconds, while this node is up."""
        if self.live:
            action()
            again: Callable[[None], None] = lambda _: self.every(period, action)  # noqa: E731
            self.loop.at(self.loop.now + period, again, None)

    def crash(self) -> None:
        super().crash()
        self.ring.up.pop(self.id, None)

    def leave(self) -> None:
        super().leave()
        self.ring.up.pop(self.id, None)
