"""What the network needs of a host; `routers.node.Node` is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from episub_router.sim.network.queue import Action

NodeId: TypeAlias = Any
"""A host's id, an int. Compiled code unpacks what is annotated as one, and makes another object of
it for each table that it goes into: so an id stays the one object that it is."""


@dataclass(slots=True)
class DirectedLink:
    """One direction of a connection."""

    sink: Action
    """Called with each parcel that arrives at the far end."""
    delay: float
    """Seconds, one way."""
    free_at: float = 0.0
    """No later parcel arrives before this time."""


class Host(ABC):
    """One end of connections. The network notifies it of what becomes of them."""

    __slots__ = ("id", "links", "live", "outbound", "sink")

    def __init__(self, node: NodeId) -> None:
        self.id = node
        self.live = True
        self.links: dict[NodeId, DirectedLink] = {}
        """The link to each connected peer."""
        self.outbound: dict[NodeId, None] = {}
        """The connections that this host dialled."""
        self.sink: Action = self.receive
        """`receive`, bound once for all links that lead here."""

    @abstractmethod
    def receive(self, parcel: Any) -> None:
        """Take what a peer's router of the same kind has sent."""

    @abstractmethod
    def connected(self, peer: NodeId) -> None:
        """A connection to `peer` is open, whichever side dialled."""

    @abstractmethod
    def disconnected(self, peer: NodeId) -> None:
        """The connection to `peer` is closed."""

    def dial_failed(self, peer: NodeId) -> None:
        """A dial to `peer` failed."""
        return

    def measured(self, peer: NodeId, rtt: float | None) -> None:
        """A measurement asked of the network is done; None when it failed."""
        return

    def ping_time(self, rtt: float) -> float:
        """How long a round trip that takes `rtt` seems to take, as this host answers it."""
        return rtt

    def messages_in(self, parcel: Any) -> Iterable[int]:
        """The payload messages that `parcel` carries or announces."""
        return ()

    @abstractmethod
    def trace_event(self, event: str, **columns: Any) -> None:
        """Record `event` in the trace, if there is one."""
