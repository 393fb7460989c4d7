"""What the network needs of a host; `routers.node.Node` implements it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

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


class Host(Protocol):
    """One end of connections. The network notifies it of what becomes of them."""

    __slots__ = ()

    id: NodeId
    live: bool
    links: dict[NodeId, DirectedLink]
    """The link to each connected peer."""
    outbound: dict[NodeId, None]
    """The connections that this host dialled."""
    sink: Action
    """Called with each parcel that arrives here."""

    def connected(self, peer: NodeId) -> None:
        """A connection to `peer` is open, whichever side dialled."""

    def disconnected(self, peer: NodeId) -> None:
        """The connection to `peer` is closed."""

    def dial_failed(self, peer: NodeId) -> None:
        """A dial to `peer` failed."""

    def measured(self, peer: NodeId, rtt: float | None) -> None:
        """A measurement asked of the network is done; None when it failed."""

    def ping_time(self, rtt: float) -> float:
        """How long a round trip that takes `rtt` seems to take, as this host answers it."""

    def messages_in(self, parcel: Any) -> Iterable[int]:
        """The payload messages that `parcel` carries or announces."""

    def trace_event(self, event: str, **columns: Any) -> None:
        """Record `event` in the trace, if there is one."""
