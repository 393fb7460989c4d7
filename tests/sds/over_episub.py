"""The same group over Episub: each member is the application of a node of the simulator.

Publishes travel along the overlay, direct streams along its connections, and the simulated
network loses every transmission with the same probability: payloads, Episub's control
messages, and each request and answer of a direct stream.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from episub_router.protocol.events import Received as FromPeer
from episub_router.protocol.messages import Gossip
from episub_router.protocol.params import EpisubParams
from episub_router.sds.protocol.effects import Ask, Effect
from episub_router.sds.protocol.message import Message
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.wire.exchange import Request as WireRequest
from episub_router.sds.wire.exchange import Response, encode_request
from episub_router.sim.hashing import generator
from episub_router.sim.network.latency import UniformLatency
from episub_router.sim.network.network import Network
from episub_router.sim.network.queue import EventLoop
from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.records import Records
from episub_router.sim.routers.episub import EpisubNode
from episub_router.sim.sizes import SIGNED_PAYLOAD, episub_control
from tests.sds.harness import Group, Links, Member

CONTACTS = 3
"""Members that each one knows when it comes up."""
JOINING = 10.0
"""Seconds for the overlay to form before anybody talks."""


@dataclass(frozen=True)
class Request:
    asker: int
    number: int
    ask: Ask


@dataclass(frozen=True)
class Answer:
    number: int
    answer: Response


class MemberNode(EpisubNode):
    """An Episub node that hands what it delivers, and who is connected, to its member."""

    __slots__ = ("_group", "_name")

    def __init__(
        self, group: EpisubGroup, name: str, number: int, network: Network, rng: random.Random
    ) -> None:
        super().__init__(number, network, rng, EpisubParams())
        self._group = group
        self._name = name

    def receive(self, parcel: Any) -> None:
        if isinstance(parcel, FromPeer):
            super().receive(parcel)
        elif isinstance(parcel, Request):
            self._group.asked(self, parcel)
        else:
            self._group.answer_came(parcel)

    def connected(self, peer: int) -> None:
        super().connected(peer)
        self._group.linked(self._name, peer, up=True)

    def disconnected(self, peer: int) -> None:
        super().disconnected(peer)
        self._group.linked(self._name, peer, up=False)

    def messages_in(self, parcel: Any) -> Iterable[int]:
        return super().messages_in(parcel) if isinstance(parcel, FromPeer) else ()

    def _send(self, message: Any, peers: list[int]) -> None:
        self._group.count(message, len(peers))
        super()._send(message, peers)

    def _on_deliver(self, effect: Any) -> None:
        super()._on_deliver(effect)
        if effect.peer is not None:
            self._group.broadcast_came(self._name, effect.id)


class EpisubGroup(Group):
    """A `Group` whose links are those of simulated Episub nodes. Its members stay up.

    `bytes["overlay"]` is what Episub and pubsub add: control messages and envelopes, by the
    simulator's model.
    """

    def __init__(
        self,
        size: int,
        *,
        seed: int,
        params: SdsParams | None = None,
        links: Links | None = None,
        skew: float = 0.0,
    ) -> None:
        self._loop = EventLoop()
        self._wakes: dict[str, float] = {}
        self._asks: dict[int, tuple[str, Ask]] = {}
        self._asked = 0
        self._contents: list[tuple[str, str, Message, bytes]] = []
        super().__init__(size, seed=seed, params=params, links=links, skew=skew)
        self._epoch = self.now
        self._names = list(self.members)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._records = Records(size)
        low, high = self.links.delay
        network = Network(
            self._loop,
            UniformLatency(low=low, high=high),
            NetworkConfig(nodes=size, loss=self.links.loss),
            seed,
            self._records,
        )
        self._nodes = [
            MemberNode(self, name, number, network, generator(seed, "router", number))
            for number, name in enumerate(self._names)
        ]
        for node in self._nodes:
            others = [n for n in range(size) if n != node.id]
            node.start(tuple(self.rng.sample(others, min(CONTACTS, size - 1))))
        for name in self._names:
            self._arm(name)
        self.run(JOINING)
        self.bytes.clear()

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        self._loop.run(end - self._epoch)
        self.now = end

    def _carry_out(self, member: Member, effects: list[Effect]) -> None:
        super()._carry_out(member, effects)
        self._arm(member.name)

    # A member's own timer

    def _arm(self, name: str) -> None:
        participant = self.members[name].participant
        deadline = participant.deadline()
        if deadline < self._wakes.get(name, float("inf")):
            self._wakes[name] = deadline
            self._loop.at(deadline - self._epoch, self._woken, (name, deadline))

    def _woken(self, wake: tuple[str, float]) -> None:
        name, deadline = wake
        if self._wakes.get(name) != deadline:
            return
        del self._wakes[name]
        # The queue counts from its own start: rounding must not end before the deadline.
        self.now = max(self._time(), deadline)
        member = self.members[name]
        self._carry_out(member, member.participant.poll(self.now))

    def _time(self) -> float:
        return self._epoch + self._loop.now

    # Broadcasts

    def _publish(self, name: str, raw: bytes, purpose: str) -> None:
        message = self.codec.decode(raw)
        self.published[purpose] += 1
        self._contents.append((name, purpose, message, raw))
        node = self._numbers[name]
        self._nodes[node].inject(self._records.publish(self._loop.now, node, len(raw)), len(raw))

    def broadcast_came(self, name: str, number: int) -> None:
        self.now = self._time()
        source, _, message, raw = self._contents[number]
        self._arrival(source, name, message, raw)()

    def count(self, message: Any, peers: int) -> None:
        """Bytes of one Episub message to so many peers."""
        extra = episub_control(message)
        if isinstance(message, Gossip):
            self.bytes[self._contents[message.id][1]] += peers * message.size  # type: ignore[call-overload]
            extra += SIGNED_PAYLOAD
        self.bytes["overlay"] += peers * extra

    # Direct streams, between members that are connected

    def _meet(self, name: str) -> None:
        """Members meet as their nodes connect."""

    def linked(self, name: str, peer: int, *, up: bool) -> None:
        participant = self.members[name].participant
        if participant is None or not self.links.streams:
            return
        self.now = self._time()
        tell = participant.peer_up if up else participant.peer_down
        tell(self._names[peer], self.now)
        self._arm(name)

    def _ask(self, asker: str, ask: Ask) -> None:
        size = len(encode_request(WireRequest("t", "0", ask)))
        self.bytes["pull"] += size
        self._asked += 1
        self._asks[self._asked] = asker, ask
        node = self._nodes[self._numbers[asker]]
        request = Request(node.id, self._asked, ask)
        node.network.send(node, [self._numbers[ask.peer]], request, size)
        self._loop.at(self._loop.now + self.params.pull_timeout, self._given_up, self._asked)

    def asked(self, node: MemberNode, request: Request) -> None:
        self.now = self._time()
        answer = Answer(request.number, self._answer(self._names[request.asker], request.ask))
        node.network.send(node, [request.asker], answer, 0)

    def answer_came(self, answer: Answer) -> None:
        waiting = self._asks.pop(answer.number, None)
        if waiting is not None:
            self.now = self._time()
            self._answered(waiting[0], self.members[waiting[0]].life, waiting[1], answer.answer)

    def _given_up(self, number: int) -> None:
        waiting = self._asks.pop(number, None)
        if waiting is not None:
            self.now = self._time()
            self._fail(waiting[0], self.members[waiting[0]].life, waiting[1])
            self._arm(waiting[0])
