"""Connections between simulated hosts: what they cost, and how they fail.

A connection is a pair of directed links. Messages over a link arrive in order, after the
pair's delay; dialling costs round trips; a connection that is closed is noticed at the other
end one delay later, a crashed or unreachable host `crash_notice` seconds later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Generic, TypeVar

from episub_router.sim.hashing import generator, unit
from episub_router.sim.network.host import DirectedLink, Host, NodeId
from episub_router.sim.network.latency import Latency
from episub_router.sim.network.queue import Action, EventLoop
from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.network.uplink import Uplink
from episub_router.sim.records import Records

PUBLIC_NODES = 3
"""The first nodes are never behind a NAT: others join through them."""

H = TypeVar("H", bound=Host)
"""The kind of hosts that a network has."""


class Network(Generic[H]):
    """All hosts and their connections.

    Randomness (jitter, loss) is drawn from one generator per sending host, so that what one
    host does never changes what another one draws.
    """

    def __init__(
        self,
        loop: EventLoop,
        latency: Latency,
        config: NetworkConfig,
        seed: int,
        records: Records,
    ) -> None:
        self.loop = loop
        self.records = records
        self.nodes: dict[NodeId, H] = {}
        """The hosts that are up, by id, in the order in which they came up."""
        self.prefixes: dict[Any, Any] = {}
        """The address prefix of each host that shares one with others."""
        self._latency = latency
        self._config = config
        self._seed = seed
        self._group: dict[int, int] = {}
        self._uplinks: dict[int, Uplink] = {}
        self._downlink_free: dict[int, float] = {}
        self._draws: dict[int, Any] = {}
        self._ideal = config.ideal

    # Hosts come and go.

    def add(self, node: H) -> None:
        """A host is up."""
        self.nodes[node.id] = node

    def crash(self, node: H) -> None:
        """A host is gone without a word; its peers notice later."""
        del self.nodes[node.id]
        if node.id in self._uplinks:
            self._uplinks.pop(node.id).clear()
        notice = self.loop.now + self._config.crash_notice
        for peer in node.links:
            other = self.nodes.get(peer)
            if other is not None and node.id in other.links:
                self.loop.at(notice, self._closed, (other, node.id, other.links[node.id]))
        node.links.clear()

    def depart(self, node: H) -> None:
        """A host goes and closes its connections."""
        for peer in list(node.links):
            self.close(node, peer)
        del self.nodes[node.id]

    def dialable(self, node: int) -> bool:
        """Whether `node` can be dialled, i.e. is not behind a NAT."""
        share = self._config.nat_share
        return not share or node < PUBLIC_NODES or unit(self._seed, 9, node) >= share

    def delay(self, a: int, b: int) -> float:
        """Seconds that a message takes from `a` to `b`."""
        return self._latency.delay(self._seed, a, b)

    def place(self, node: int) -> str | None:
        """The region or site that `node` is in, if there are any."""
        return self._latency.place(self._seed, node)

    # Connections.

    def dial(self, node: H, peer: NodeId) -> None:
        """Open a connection; ends with `node.connected` or `node.dial_failed`."""
        there = peer in node.links
        trips = 0 if there else 2 * self._config.dial_round_trips * self.delay(node.id, peer)
        self.loop.at(self.loop.now + trips, self._dialled, (node, peer, self.loop.now))

    def _dialled(self, dial: tuple[H, NodeId, float]) -> None:
        node, peer, started = dial
        if not node.live:
            return
        if peer in node.links:
            node.connected(peer)
            return
        other = self.nodes.get(peer)
        if (
            other is None
            or other is node
            or not self.dialable(peer)
            or self._separated(node.id, peer)
        ):
            self.records.dropped("dial-failed")
            self.loop.at(started + self._config.dial_timeout, self._dial_failed, (node, peer))
            return
        # An end that has yet to notice the loss of an earlier connection learns of it now.
        if node.id in other.links:
            self._closed((other, node.id, other.links[node.id]))
        self.link(node, other)
        other.connected(node.id)
        node.connected(peer)

    def link(self, node: H, other: H) -> None:
        """Open a connection from `node` to `other` at once, and notify neither."""
        delay = self.delay(node.id, other.id)
        node.links[other.id] = DirectedLink(other.sink, delay)
        other.links[node.id] = DirectedLink(node.sink, delay)
        node.outbound[other.id] = None

    def _dial_failed(self, dial: tuple[H, NodeId]) -> None:
        node, peer = dial
        if node.live:
            node.dial_failed(peer)

    def close(self, node: H, peer: NodeId) -> None:
        """Close a connection and notify both ends. What was sent over it before still arrives."""
        link = node.links.pop(peer, None)
        if link is None:
            return
        node.outbound.pop(peer, None)
        self.loop.at(self.loop.now, self._closed_here, (node, peer))
        other = self.nodes.get(peer)
        if other is None or node.id not in other.links:
            return
        arrival = max(self.loop.now + link.delay, link.free_at)
        self.loop.at(arrival, self._closed, (other, node.id, other.links[node.id]))

    def _closed_here(self, end: tuple[H, NodeId]) -> None:
        node, peer = end
        if node.live and peer not in node.links:
            node.disconnected(peer)

    def _closed(self, end: tuple[H, NodeId, DirectedLink]) -> None:
        node, peer, link = end
        if node.links.get(peer) is link:
            del node.links[peer]
            node.outbound.pop(peer, None)
            node.disconnected(peer)

    # Traffic.

    def send_in_bulk(
        self, node: H, peer: NodeId, parcel: Any, size: int, part: tuple[Hashable, Hashable],
        more: int, sent: Callable[[], None],
    ) -> None:  # fmt: skip
        """Put `parcel` on the link to `peer` when nothing but bulk waits for the uplink, and it is
        its turn; `sent` is called when it goes. `part` names a message and a part of it, of which
        no second one waits for a peer; `more` parts of the message will follow."""
        link = node.links.get(peer)
        uplink = self._uplink(node.id)
        if link is None or uplink is None:
            sent()
            self.send(node, (peer,), parcel, size)
            return

        def departed(at: float) -> None:
            sent()
            if node.links.get(peer) is link:
                self._depart(link, node, peer, parcel, size, at)

        uplink.send_in_bulk(peer, part, more, size, departed)

    def forget_bulk(
        self, node: H, peer: NodeId, messages: Collection[Hashable] | None = None
    ) -> None:
        """Nothing of what waits for `peer` is sent, of these `messages` or of all."""
        uplink = self._uplinks.get(node.id)
        if uplink is not None:
            uplink.forget(peer, messages)

    def uplink_of(self, node: int) -> float:
        """Megabit per second that `node` can send; 0 is no limit."""
        rates = self._config.uplinks
        if not rates:
            return self._config.uplink
        return rates[int(unit(self._seed, 10, node) * len(rates))]

    @property
    def uplinks_differ(self) -> bool:
        """Whether each host draws its own uplink."""
        return bool(self._config.uplinks)

    def sent(self) -> dict[int, int]:
        """The bytes that each host with a limited uplink has sent since it came up."""
        return {node: uplink.sent for node, uplink in self._uplinks.items() if node in self.nodes}

    def _uplink(self, node: int) -> Uplink | None:
        uplink = self._uplinks.get(node)
        if uplink is None and (rate := self.uplink_of(node)):
            uplink = self._uplinks[node] = Uplink(self.loop, rate * 125e3)
        return uplink

    def uplink_free_at(self, node: int) -> float:
        """When what `node` has sent will have left; now or earlier where nothing waits."""
        uplink = self._uplink(node)
        return self.loop.now if uplink is None else uplink.free_at

    def send(self, node: H, peers: Iterable[NodeId], parcel: Any, size: int) -> None:
        """Put `parcel`, `size` bytes long, on the links from `node` to each of `peers`."""
        links = node.links
        at = self.loop.at
        now = self.loop.now
        for peer in peers:
            link = links.get(peer)
            if link is None:
                self.records.dropped("not-connected")
            elif self._ideal:
                at(now + link.delay, link.sink, parcel)
            else:
                self._send_over(link, node, peer, parcel, size)

    def _send_over(self, link: DirectedLink, node: H, peer: NodeId, parcel: Any, size: int) -> None:
        uplink = self._uplink(node.id)
        departure = self.loop.now if uplink is None else uplink.send(size)
        self._depart(link, node, peer, parcel, size, departure)

    def _depart(
        self, link: DirectedLink, node: H, peer: NodeId, parcel: Any, size: int, departure: float
    ) -> None:
        config = self._config
        if self._separated(node.id, peer):
            self._lose("partition", node, peer, parcel)
            return
        draws = self._generator(node.id)
        if config.loss and draws.random() < config.loss:
            self._lose("loss", node, peer, parcel)
            return
        arrival = departure + link.delay
        if config.jitter:
            arrival += link.delay * config.jitter * draws.random()
        link.free_at = arrival = max(arrival, link.free_at)
        if config.downlink:
            self.loop.at(arrival, self._arrive, (link.sink, peer, parcel, size))
        else:
            self.loop.at(arrival, link.sink, parcel)

    def _arrive(self, arrival: tuple[Action, NodeId, Any, int]) -> None:
        """The first bit is there, and the downlink takes the rest as it can."""
        sink, peer, parcel, size = arrival
        # The last bit has come over the sender's uplink: only what is slower here adds to that.
        ready = self._downlink_free.get(peer, 0.0) + size / (self._config.downlink * 125e3)
        self._downlink_free[peer] = done = max(self.loop.now, ready)
        self.loop.at(done, sink, parcel)

    def _lose(self, reason: str, node: H, peer: NodeId, parcel: Any) -> None:
        self.records.dropped(reason)
        for message in node.messages_in(parcel):
            self.records.lost_on_the_way[message, peer] = None
            node.trace_event("discard", remote=peer, message=message, reason=reason)

    def measure(self, node: H, peer: NodeId) -> None:
        """Measure the round trip to a connected `peer`; ends with `node.measured`."""
        link = node.links.get(peer)
        if link is None or peer not in self.nodes or self._separated(node.id, peer):
            self.loop.at(
                self.loop.now + self._config.dial_timeout, self._measured, (node, peer, None)
            )
            return
        rtt = self.nodes[peer].ping_time(2 * link.delay)
        if self._config.jitter:
            draws = self._generator(node.id)
            rtt += link.delay * self._config.jitter * (draws.random() + draws.random())
        self.loop.at(self.loop.now + rtt, self._measured, (node, peer, rtt))

    def _measured(self, answer: tuple[H, NodeId, float | None]) -> None:
        node, peer, rtt = answer
        if node.live:
            node.measured(peer, rtt)

    def _generator(self, node: int) -> Any:
        draws = self._draws.get(node)
        if draws is None:
            draws = self._draws[node] = generator(self._seed, "network", node)
        return draws

    # Partitions.

    def partition(self, groups: dict[int, int]) -> None:
        """Cut every path between nodes of different `groups`; an unnamed node is in group 0."""
        self._group = groups
        self._ideal = False
        notice = self.loop.now + self._config.crash_notice
        for node in self.nodes.values():
            for peer, link in node.links.items():
                if self._separated(node.id, peer):
                    self.loop.at(notice, self._cut_noticed, (node, peer, link))

    def _cut_noticed(self, end: tuple[H, NodeId, DirectedLink]) -> None:
        node, peer, _ = end
        if self._separated(node.id, peer):
            self._closed(end)

    def heal(self) -> None:
        """End the partition."""
        self._group = {}
        self._ideal = self._config.ideal

    def _separated(self, a: int, b: int) -> bool:
        group = self._group
        return bool(group) and group.get(a, 0) != group.get(b, 0)
