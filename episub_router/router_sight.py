"""What can be seen of a router: neighbours, counters, events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import trio
from libp2p.abc import IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID

from episub_router.fallback import Bridge
from episub_router.net.mesh import union
from episub_router.net.peer_table import PeerTable
from episub_router.net.service import EpisubService
from episub_router.net.sight.events import EventStream, NotJoined
from episub_router.snapshot import OverlaySnapshot, overlay_snapshot


class RouterSight(IPubsubRouter):
    """The part of `EpisubRouter` that applications, tools and tests look at it through."""

    _bridge: Bridge | None
    _peers: PeerTable | None
    _unattached: dict[ID, TProtocol]
    """Peers that were added before there was a Pubsub: by tests, not by py-libp2p."""

    @abstractmethod
    def _attached(self) -> EpisubService:
        """Episub's side; raises RuntimeError without a Pubsub."""

    @property
    def mesh(self) -> dict[str, set[ID]]:  # type: ignore[override]
        """Joined topics and the neighbours in each, Episub's and gossipsub's."""
        return union(self._attached().mesh.neighbors, self._bridge.mesh if self._bridge else {})

    @property
    def fanout(self) -> dict[str, set[ID]]:  # type: ignore[override]
        """Topics published to without joining, and the subscribers chosen for each."""
        return union(self._attached().fanout.peers, self._bridge.fanout if self._bridge else {})

    @property
    def peer_protocol(self) -> dict[ID, TProtocol]:  # type: ignore[override]
        """What our stream to each peer negotiated."""
        return self._unattached if self._peers is None else self._peers.protocols()

    def overlay(self, topic: str) -> OverlaySnapshot:
        """A snapshot of `topic`; raises KeyError if this node hasn't joined it."""
        service = self._attached()
        machine = service.driver.joined(topic)
        if machine is None:
            raise KeyError(topic)
        return overlay_snapshot(
            machine, service.driver.hops(topic), service.counts(), trio.current_time()
        )

    def set_standing(self, peer: ID, standing: float) -> None:
        """Add `standing` to what `peer` earns by its doings, in all topics; 0 takes it back. Below
        -10 it is asked last, below -40 banned, and what is above 0 outweighs faults."""
        self._attached().driver.set_standing(peer.to_bytes(), standing)

    def counters(self) -> Mapping[str, int]:
        """Every counter by name (docs/metrics-node.md)."""
        return self._attached().counts()

    def deliveries(self, topic: str) -> Mapping[int, int]:
        """How many messages of `topic` were accepted after how many hops; 0 for our own."""
        return self._attached().driver.hops(topic)

    def events(self, topic: str) -> EventStream:
        """What happens in `topic` from now on, for `async for`; the topic may be joined later.

        At most 256 events wait for the reader; `EventsMissed` stands for those before them.
        """
        return self._attached().events.read(topic)

    async def joined(
        self,
        topic: str,
        timeout: float = 30.0,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> None:
        """Wait until there is a neighbour in `topic`, of Episub's or of gossipsub's.

        Raises `NotJoined` after `timeout` seconds, which says what was tried, and KeyError if
        nobody here subscribed to `topic`.
        """
        if topic not in self.mesh:
            raise KeyError(topic)
        with trio.move_on_after(timeout):
            while not self.mesh.get(topic):
                await self.mesh_changed()
            return
        raise NotJoined(topic, timeout, self._attached().why_alone(topic))

    async def wait_for_mesh(
        self,
        peer_id: ID,
        topic_id: str,
        timeout: float = 5.0,  # noqa: ASYNC109 (Pubsub passes it)
    ) -> None:
        """Wait until `peer_id` is a neighbour in `topic_id`; trio.TooSlowError after `timeout`."""
        if peer_id not in self.mesh.get(topic_id, ()):
            with trio.fail_after(timeout):
                await self._attached().mesh.wait(topic_id, peer_id)

    async def mesh_changed(self) -> None:
        """Wait until an Episub neighbour comes or goes, or a gossipsub one comes, in any topic."""
        await self._attached().mesh.changed()

    async def wait_for_room(self, most: int = 16) -> None:
        """Wait until no peer has more than `most` messages queued, so that what is published
        next isn't dropped for lack of room.

        Returns after `RouterParams.stall_timeout` at the latest; a peer that has taken nothing
        for so long doesn't count.
        """
        await self._attached().outbox.wait_for_room(most)
