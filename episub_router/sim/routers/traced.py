"""Nodes of any router that record what they do in the trace."""

from __future__ import annotations

from typing import Any

from episub_router.protocol.events import Received
from episub_router.protocol.messages import Gossip
from episub_router.sim.records import NEVER_DELIVERED
from episub_router.sim.routers.gossipsub import PUBLISH
from episub_router.trace.links import changes


def traced(kind: Any) -> Any:
    """The node class `kind`, traced. Its records must have a trace."""

    class Traced(kind):  # type: ignore[misc]
        __slots__ = ("_eager_before",)

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._eager_before: dict[int, None] = {}

        def start(self, contacts: tuple[int, ...]) -> None:
            self.trace_event("node", state="start", kind=self.network.place(self.id))
            self.trace_event("join")
            super().start(contacts)

        def receive(self, parcel: Any) -> None:
            copy = _copy_in(parcel)
            if copy is not None and copy[0] in self.links:
                sender, message, hops = copy
                record = self.records.messages[message]
                if record.delivered[self.id] != NEVER_DELIVERED:
                    self.trace_event("duplicateMessage", remote=sender, message=message, hops=hops,
                                     size=record.size)  # fmt: skip
            super().receive(parcel)
            self._compare()

        def inject(self, message: int, size: int) -> None:
            super().inject(message, size)
            self._compare()

        def connected(self, peer: int) -> None:
            self.trace_event("onNewOutboundStream", remote=peer)
            super().connected(peer)
            self._compare()

        def meet(self, peers: tuple[int, ...]) -> None:
            super().meet(peers)
            self._compare()

        def disconnected(self, peer: int) -> None:
            self.trace_event("onClosedOutboundStream", remote=peer)
            super().disconnected(peer)
            self._compare()

        def measured(self, peer: int, rtt: float | None) -> None:
            self.trace_event("rtt", remote=peer, rtt=rtt)
            super().measured(peer, rtt)
            self._compare()

        def timer(self) -> None:
            super().timer()
            self._compare()

        def leave(self) -> None:
            super().leave()
            self._compare()
            self.trace_event("leave")
            self.trace_event("node", state="leave")

        def crash(self) -> None:
            self.trace_event("node", state="crash")
            super().crash()

        def _compare(self) -> None:
            eager = self.eager()
            if self._eager_before == eager:
                return
            for peer, state in changes(self._eager_before, eager, self.neighbors()):
                event = "graft" if state == "eager" else "prune"
                self.trace_event(event, remote=peer, state=state)
            self._eager_before = dict.fromkeys(eager)

    return Traced


def _copy_in(parcel: Any) -> tuple[int, int, int] | None:
    """The sender, message and hops of the payload in `parcel`, of whichever router."""
    if isinstance(parcel, Received):
        gossip = parcel.message
        if not isinstance(gossip, Gossip):
            return None
        copy: Any = (parcel.peer, gossip.id, gossip.hops)
        return copy  # type: ignore[no-any-return]
    sender, kind, body = parcel
    return (sender, *body) if kind == PUBLISH else None
