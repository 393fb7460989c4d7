"""What py-libp2p's GossipSub does wrong, and that it doesn't in here.

Each test runs against the stock class too, where it has to fail: once it doesn't any more, the
override can go. References are to libp2p 0.8.1, pubsub/gossipsub.py where no other is given.
"""

from __future__ import annotations

import time
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from libp2p.peer.id import ID
from libp2p.pubsub.extensions import ExtensionsState
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, PROTOCOL_ID_V12, GossipSub
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import get_peer_and_seqno_msg_id
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router import FallbackParams
from episub_router.fallback.cache import BoundedCache
from episub_router.fallback.contained import ContainedGossipSub

TOPIC = "t"
ME = ID(b"me")


class Seen(set[bytes]):
    has = set.__contains__


class FakePubsub:
    """As much of Pubsub as a router sees, with queues that nobody empties."""

    def __init__(self, message_id: Any = get_peer_and_seqno_msg_id) -> None:
        self.connected: list[ID] = []
        self.protected: set[tuple[ID, str]] = set()
        network = SimpleNamespace(
            get_connections=lambda p: [p] if p in self.connected else [],
            protect=lambda peer, tag: self.protected.add((peer, tag)),
            unprotect=lambda peer, tag: self.protected.discard((peer, tag)),
        )
        self.host = SimpleNamespace(
            get_id=lambda: ME, get_network=lambda: network, connect=self.connect
        )
        self.peers: dict[ID, Any] = {}
        self.peer_queues: dict[ID, RpcQueue] = {}
        self.peer_topics: dict[str, set[ID]] = {}
        self.seen_messages = Seen()
        self.get_message_id = message_id

    async def connect(self, info: object) -> None:
        raise AssertionError("dialled from within a hook")

    def sent(self, peer: ID) -> list[rpc_pb2.RPC]:
        """What was queued to `peer` since the last call."""
        queue, out = self.peer_queues[peer]._queue, []
        while rpc := queue.pop():
            out.append(rpc)
        return out


class Lab:
    """A router in a topic, with gossipsub peers in it."""

    def __init__(self, kind: str, *, message_id: Any = get_peer_and_seqno_msg_id) -> None:
        self.pubsub = FakePubsub(message_id)
        self.links = 0
        self.bridged: set[str] = set()
        self.exchanged: list[rpc_pb2.PeerInfo] = []
        if kind == "contained":
            self.router: GossipSub = ContainedGossipSub(
                FallbackParams(),
                ExtensionsState(),
                message_id,
                note_link=self.note_link,
                connect_to=self.exchanged.extend,
                is_bridged=lambda topic: topic in self.bridged,
            )
        else:
            self.router = GossipSub([PROTOCOL_ID_V12], 6, 4, 12, heartbeat_interval=1)
        self.router.attach(self.pubsub)  # type: ignore[arg-type]

    def note_link(self) -> None:
        self.links += 1

    def add(self, count: int, *, protocol: Any = PROTOCOL_ID_V11, topic: str = TOPIC) -> list[ID]:
        peers = [ID(b"peer %d" % number) for number in range(count)]
        for peer in peers:
            self.pubsub.peers[peer] = object()
            self.pubsub.peer_queues[peer] = RpcQueue(max_size=10_000)
            self.pubsub.peer_topics.setdefault(topic, set()).add(peer)
            self.router.add_peer(peer, protocol)
        return peers

    async def heartbeat(self) -> None:
        """One round of what GossipSub.heartbeat repeats."""
        if isinstance(self.router, ContainedGossipSub):
            await self.router.beat()
            return
        grafts, prunes = self.router.mesh_heartbeat()
        await self.router._emit_control_msgs(grafts, prunes, self.router.gossip_heartbeat())
        self.router.mcache.shift()
        self.router._periodic_security_cleanup()


async def with_a_peer(kind: str, **options: Any) -> tuple[Lab, ID]:
    """A router that has joined the topic, in which there is one peer."""
    lab = Lab(kind, **options)
    [peer] = lab.add(1)
    await lab.router.join(TOPIC)
    return lab, peer


@pytest.fixture(
    params=[
        "contained",
        pytest.param("stock", marks=pytest.mark.xfail(strict=True, reason="libp2p 0.8.1")),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def message(number: int, data: bytes = b"data", *, seqno: bytes | None = None) -> rpc_pb2.Message:
    return rpc_pb2.Message(
        from_id=b"author",
        seqno=number.to_bytes(8, "big") if seqno is None else seqno,
        data=data,
        topicIDs=[TOPIC],
    )


async def test_control_for_one_peer_stays_with_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """_emit_control_msgs keeps appending to the same lists."""
    lab = Lab(kind)
    a, b, c = lab.add(3)
    steps = {
        "mesh_heartbeat": ({a: ["a"], b: ["b"]}, {b: ["x"], c: ["y"]}),
        "gossip_heartbeat": {c: {"z": [b"id"]}},
    }
    for name, found in steps.items():
        monkeypatch.setattr(lab.router, name, partial(lambda found: found, found))
    await lab.heartbeat()
    sent = {peer: lab.pubsub.sent(peer)[0].control for peer in (a, b, c)}
    assert [[graft.topicID for graft in sent[p].graft] for p in (a, b, c)] == [["a"], ["b"], []]
    assert [[prune.topicID for prune in sent[p].prune] for p in (a, b, c)] == [[], ["x"], ["y"]]
    assert [[ihave.topicID for ihave in sent[p].ihave] for p in (a, b, c)] == [[], [], ["z"]]


async def test_the_mesh_stays_between_its_bounds(kind: str) -> None:
    """_perform_opportunistic_grafting: with equal scores there are always better candidates."""
    lab = Lab(kind)
    lab.add(20)
    await lab.router.join(TOPIC)
    for _ in range(5):
        await lab.heartbeat()
    assert len(lab.router.mesh[TOPIC]) == 6


async def test_the_heartbeat_keeps_its_rate() -> None:
    """_adapt_heartbeat_parameters slows it down to once in 30 or 60 s; it is off."""
    router = Lab("contained").router
    assert not router.adaptive_gossip_enabled
    assert router.heartbeat_interval == 1


async def test_more_than_ten_messages_a_second(kind: str) -> None:
    """_check_spam_protection counts own messages and relayed ones."""
    lab, peer = await with_a_peer(kind)
    lab.pubsub.sent(peer)
    for number in range(30):
        await lab.router.publish(ME, message(number))
    assert sum(len(rpc.publish) for rpc in lab.pubsub.sent(peer)) == 30


async def test_a_peer_that_grafted_and_was_gone_before_we_knew_it(kind: str) -> None:
    """handle_graft takes anybody, and Pubsub reports the loss only of those it had a stream to."""
    lab = Lab(kind)
    lab.add(1)
    await lab.router.join(TOPIC)
    here, gone = ID(b"here"), ID(b"gone")
    lab.pubsub.connected.append(here)
    for peer in (here, gone):
        await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    lab.router.mesh_heartbeat()
    assert here in lab.router.mesh[TOPIC]
    assert gone not in lab.router.mesh[TOPIC]


async def test_peers_in_a_prune_are_not_dialled_by_the_one_who_reads_it() -> None:
    """_do_px connects to each in turn, which may take minutes; the stream is not read so long."""
    lab, peer = await with_a_peer("contained")
    named = [rpc_pb2.PeerInfo(peerID=b"%d" % number) for number in range(20)]
    prune = rpc_pb2.ControlPrune(topicID=TOPIC, peers=named)
    await lab.router.handle_prune(prune, peer)
    assert [info.peerID for info in lab.exchanged] == [b"%d" % number for number in range(16)]


async def test_a_pruned_peer_is_left_alone(kind: str) -> None:
    """mesh_heartbeat prunes without a back-off of its own."""
    lab = Lab(kind)
    peers = lab.add(13)
    await lab.router.join(TOPIC)
    for peer in peers:
        await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    lab.router.scorer = None  # which also grafts
    await lab.heartbeat()
    pruned = [peer for peer in peers if peer not in lab.router.mesh[TOPIC]]
    assert len(pruned) == 7
    assert all(lab.router._check_back_off(peer, TOPIC) for peer in pruned)


class Clock:
    """time.time, to be set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.9
        patch.setattr(time, "time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def grafts(lab: Lab, peer: ID) -> int:
    return sum(len(rpc.control.graft) for rpc in lab.pubsub.sent(peer))


async def test_a_back_off_is_kept_to_its_end(kind: str, clock: Clock) -> None:
    """_add_back_off rounds the time down: the last second is left out."""
    lab, peer = await with_a_peer(kind)
    await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=60), peer)
    assert grafts(lab, peer) == 1  # that of join
    clock.now += 59.5
    await lab.heartbeat()
    assert grafts(lab, peer) == 0
    clock.now += 3
    await lab.heartbeat()
    assert grafts(lab, peer) == 1


async def test_peers_that_we_left_are_not_grafted_for_ten_seconds(kind: str, clock: Clock) -> None:
    """_check_graft_flood_protection refuses for so long, and for a minute then."""
    lab, peer = await with_a_peer(kind)
    await lab.router.leave(TOPIC)
    assert grafts(lab, peer) == 1
    await lab.router.join(TOPIC)
    await lab.router.on_peer_subscribed(peer, TOPIC)
    clock.now += 9.5
    await lab.heartbeat()
    assert grafts(lab, peer) == 0
    clock.now += 3
    await lab.heartbeat()
    assert grafts(lab, peer) == 1


async def test_peers_that_we_left_may_graft_us(kind: str, clock: Clock) -> None:
    """leave notes a back-off for peers that wait for us to come back, too."""
    lab, peer = await with_a_peer(kind)
    await lab.router.leave(TOPIC)
    await lab.router.join(TOPIC)
    await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    assert peer in lab.router.mesh[TOPIC]


@pytest.mark.parametrize(("backoff", "wait"), [(1, 1.0), (60, 59.0)])
async def test_a_graft_after_its_back_off_is_welcome(
    kind: str, clock: Clock, backoff: int, wait: float
) -> None:
    """_check_graft_flood_protection wants 10 s, and handle_graft has another clock's seconds."""
    clock.now = 1000.0
    lab, peer = await with_a_peer(kind)
    await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=backoff), peer)
    clock.now += wait
    await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    assert peer in lab.router.mesh[TOPIC]


async def test_a_graft_within_a_back_off_is_refused(clock: Clock) -> None:
    lab, peer = await with_a_peer("contained")
    await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=60), peer)
    clock.now += 50
    await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    assert peer not in lab.router.mesh[TOPIC]
    assert any(rpc.control.prune for rpc in lab.pubsub.sent(peer))


async def test_a_peer_in_back_off_is_told_of_messages(kind: str) -> None:
    """_handle_topic_heartbeat passes it over."""
    lab, peer = await with_a_peer(kind)
    await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=60), peer)
    await lab.router.publish(ME, message(1))
    lab.pubsub.sent(peer)
    await lab.heartbeat()
    [rpc] = lab.pubsub.sent(peer)
    assert [list(ihave.messageIDs) for ihave in rpc.control.ihave] == [
        [get_peer_and_seqno_msg_id(message(1))]
    ]
    assert not rpc.control.graft


async def test_grafts_for_topics_that_we_are_not_in_cost_nothing(kind: str) -> None:
    """handle_graft answers each with a PRUNE, and remembers it."""
    lab = Lab(kind)
    await lab.router.join(TOPIC)
    [peer] = lab.add(1)
    lab.pubsub.sent(peer)
    for number in range(100):
        await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=f"t{number}"), peer)
    assert not lab.pubsub.sent(peer)
    assert not lab.router.graft_flood_tracking[peer]


async def test_a_peer_that_comes_into_the_mesh_is_told_of_what_it_missed(kind: str) -> None:
    """_handle_topic_heartbeat tells only peers outside the mesh."""
    lab = Lab(kind)
    await lab.router.join(TOPIC)
    [peer] = lab.add(1)
    await lab.router.publish(ME, message(1))
    await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    lab.pubsub.sent(peer)
    await lab.heartbeat()
    [rpc] = lab.pubsub.sent(peer)
    assert [list(ihave.messageIDs) for ihave in rpc.control.ihave] == [
        [get_peer_and_seqno_msg_id(message(1))]
    ]
    await lab.heartbeat()
    assert not lab.pubsub.sent(peer)


def by_content(msg: rpc_pb2.Message) -> bytes:
    return sha256(msg.data).digest()


def by_content_in_hex(msg: rpc_pb2.Message) -> bytes:
    return sha256(msg.data).hexdigest().encode()


@pytest.mark.parametrize("message_id", [by_content, by_content_in_hex])
async def test_the_applications_message_ids_are_those_that_are_gossiped(
    kind: str, message_id: Any
) -> None:
    """mcache.MessageCache.put has ids of its own."""
    lab, peer = await with_a_peer(kind, message_id=message_id)
    await lab.router.publish(ME, message(1))
    assert lab.router.mcache.window(TOPIC) == [message_id(message(1))]
    lab.pubsub.sent(peer)
    wanted = message_id(message(1))
    await lab.router.handle_iwant(rpc_pb2.ControlIWant(messageIDs=[wanted]), peer)
    assert [m.data for rpc in lab.pubsub.sent(peer) for m in rpc.publish] == [b"data"]
    lab.pubsub.seen_messages.add(wanted)
    ihave = rpc_pb2.ControlIHave(topicID=TOPIC, messageIDs=[wanted, b"other"])
    await lab.router.handle_ihave(ihave, peer)
    [asked] = [iwant for rpc in lab.pubsub.sent(peer) for iwant in rpc.control.iwant]
    assert list(asked.messageIDs) == [b"other"]


@pytest.mark.parametrize(("topic", "id"), [(TOPIC, b"abcd"), ("another", b"id")])
async def test_what_is_known_or_of_another_topic_is_not_asked_for(
    kind: str, topic: str, id: bytes
) -> None:
    """utils.safe_bytes_from_hex takes ids that look like hexadecimal for other ones, and
    handle_ihave doesn't look at the topic."""
    lab, peer = await with_a_peer(kind)
    lab.pubsub.sent(peer)
    lab.pubsub.seen_messages.add(b"abcd")
    ihave = rpc_pb2.ControlIHave(topicID=topic, messageIDs=[id])
    await lab.router.handle_ihave(ihave, peer)
    assert lab.pubsub.sent(peer) == []


async def test_messages_without_sequence_numbers_are_not_all_the_same(kind: str) -> None:
    """_check_equivocation goes by author and sequence number."""
    lab, peer = await with_a_peer(kind, message_id=by_content)
    lab.pubsub.sent(peer)
    for data in (b"one", b"two"):
        await lab.router.publish(ME, message(0, data, seqno=b""))
    assert [m.data for rpc in lab.pubsub.sent(peer) for m in rpc.publish] == [b"one", b"two"]


async def test_one_request_for_the_same_message_many_times(kind: str) -> None:
    """handle_iwant answers each mention."""
    lab, peer = await with_a_peer(kind)
    await lab.router.publish(ME, message(1))
    lab.pubsub.sent(peer)
    wanted = [get_peer_and_seqno_msg_id(message(1))] * 100
    for _ in range(5):
        await lab.router.handle_iwant(rpc_pb2.ControlIWant(messageIDs=wanted), peer)
    assert sum(len(rpc.publish) for rpc in lab.pubsub.sent(peer)) == 3


async def test_prunes_of_made_up_topics_are_not_remembered(kind: str) -> None:
    """handle_prune keeps a back-off for each, for good."""
    lab = Lab(kind)
    [peer] = lab.add(1)
    for number in range(1000):
        await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=str(number)), peer)
    assert len(lab.router.back_off) == 0


async def test_back_offs_that_are_over_are_forgotten(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """_check_back_off forgets one when it is asked about that peer, which may be gone."""
    lab = Lab(kind)
    peers = lab.add(3)
    await lab.router.join(TOPIC)
    await lab.router.leave(TOPIC)
    await lab.router.join(TOPIC)
    for peer in peers:
        await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=5), peer)
        lab.router.remove_peer(peer)
        lab.pubsub.peer_topics.clear()
    later = time.time() + 15
    monkeypatch.setattr(time, "time", lambda: later)
    await lab.heartbeat()
    assert not lab.router.back_off
    assert isinstance(lab.router, ContainedGossipSub)
    assert not lab.router._left


async def test_nothing_grows_with_the_number_of_messages(kind: str) -> None:
    """publish notes the time of each for adaptive gossip, and _check_equivocation keeps each
    message."""
    lab = Lab(kind)
    lab.add(1)
    await lab.router.join(TOPIC)
    for number in range(100):
        await lab.router.publish(ME, message(number))
    for _ in range(6):
        await lab.heartbeat()
    assert not any(lab.router.recent_message_deliveries.values())
    assert not lab.router.equivocation_detection
    assert not lab.router.mcache.msgs


async def test_nobody_gets_messages_from_before_its_subscription_again(kind: str) -> None:
    """publish queues messages for every connected peer that isn't in the topic, for 30 s, besides
    those that send_recent_messages takes from the cache."""
    lab = Lab(kind)
    lab.add(1, topic="another")
    for number in range(100):
        await lab.router.publish(ME, message(number))
    assert sum(map(len, lab.router._pending_messages.values())) <= 1


def test_the_cache_is_bounded() -> None:
    cache = BoundedCache(get_peer_and_seqno_msg_id, max_messages=10, max_bytes=10_000)
    for number in range(100):
        cache.put(message(number))
        if number % 10 == 0:
            cache.shift()
    assert list(cache.msgs.values()) == [message(number) for number in range(90, 100)]
    cache.put(message(1000, bytes(9_960)))
    assert list(cache.msgs.values()) == [message(1000, bytes(9_960))]
    for _ in range(5):
        cache.shift()
    assert not cache.msgs
    assert cache._bytes == 0


async def test_a_bridge_asks_for_few_links_and_gives_as_many_as_are_wanted() -> None:
    lab = Lab("contained")
    lab.bridged = {TOPIC}
    peers = lab.add(13)
    await lab.router.join(TOPIC)
    assert len(lab.router.mesh[TOPIC]) == 2
    others = [peer for peer in peers if peer not in lab.router.mesh[TOPIC]]
    for peer in others[:10]:
        await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    mesh = set(lab.router.mesh[TOPIC])
    await lab.heartbeat()
    assert lab.router.mesh[TOPIC] == mesh >= set(others[:10])
    for peer in peers:
        await lab.router.handle_graft(rpc_pb2.ControlGraft(topicID=TOPIC), peer)
    await lab.heartbeat()
    assert len(lab.router.mesh[TOPIC]) == 6
    assert (lab.router.degree_low, lab.router.degree) == (4, 6)
    for peer in list(mesh):
        await lab.router.handle_prune(rpc_pb2.ControlPrune(topicID=TOPIC, backoff=1), peer)
    lab.router.back_off.clear()
    lab.bridged = set()
    await lab.heartbeat()
    assert len(lab.router.mesh[TOPIC]) == 6


async def test_each_topic_has_its_own_degrees() -> None:
    lab = Lab("contained")
    lab.bridged = {"bridged"}
    lab.add(10)
    peers = lab.add(10, topic="bridged")
    for topic in (TOPIC, "bridged"):
        lab.router.mesh[topic] = set()
    await lab.heartbeat()
    assert len(lab.router.mesh[TOPIC]) == 6
    assert len(lab.router.mesh["bridged"]) == 2
    grafted = [g.topicID for p in peers for rpc in lab.pubsub.sent(p) for g in rpc.control.graft]
    assert sorted(grafted) == ["bridged"] * 2 + [TOPIC] * 6


async def test_mesh_links_are_reported() -> None:
    lab = Lab("contained")
    await lab.router.join(TOPIC)
    lab.add(1)
    assert lab.links == 0
    await lab.heartbeat()
    assert lab.links == 1
    await lab.heartbeat()
    assert lab.links == 1
