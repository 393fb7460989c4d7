"""An EpisubRouter where a GossipSub was made, and what it has of one."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import PROTOCOL_ID, PROTOCOL_ID_V12, PROTOCOL_ID_V14, GossipSub
from libp2p.pubsub.score import ScoreParams

from episub_router import EpisubRouter, FallbackParams, ResilientPubsub
from episub_router.gossipsub_arguments import GossipSubOptions
from tests.hosts import PATIENCE, bounded_gossipsub, connect, eventually, receive, running_nodes

TOPIC = "news"
EPISUB = EpisubRouter().get_protocols()[0]


def fallback_of(router: EpisubRouter) -> FallbackParams:
    assert router._fallback is not None
    return router._fallback


def test_what_has_a_meaning_is_taken() -> None:
    router = EpisubRouter.from_gossipsub(
        [PROTOCOL_ID_V12, PROTOCOL_ID],
        3,
        2,
        degree_high=4,
        heartbeat_interval=0.5,
        prune_back_off=5,
        unsubscribe_back_off=2,
        direct_connect_interval=7,
        time_to_live=30,
        seed=1,
    )
    assert router.protocols == [EPISUB, PROTOCOL_ID_V12, PROTOCOL_ID]
    params = fallback_of(router)
    assert (params.degree_low, params.degree, params.degree_high) == (2, 3, 4)
    assert (params.heartbeat_interval, params.prune_backoff) == (0.5, 5)
    assert (params.unsubscribe_backoff, params.regraft_pause) == (2, 5)
    assert params.direct_connect_interval == 7


def test_what_is_left_out_is_as_here() -> None:
    router = EpisubRouter.from_gossipsub([PROTOCOL_ID], 6, 4, 12)
    assert fallback_of(router) == FallbackParams(protocols=(PROTOCOL_ID,))


def test_a_small_degree_is_a_bridge_s_as_well() -> None:
    assert fallback_of(EpisubRouter.from_gossipsub([PROTOCOL_ID], 1, 1, 1)).bridge_degree == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"score_params": ScoreParams()}, "score_params"),
        ({"do_px": True, "gossip_window": 9}, "do_px, gossip_window"),
        ({"max_messages_per_topic_per_second": 3.0}, "max_messages_per_topic_per_second"),
        ({"max_messages_per_topic_per_second": "9"}, "max_messages_per_topic_per_second"),
        ({"max_idontwant_messages": 5000}, "max_idontwant_messages"),
    ],
)
def test_what_has_none_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"nothing like GossipSub's {named}(;|$)"):
        EpisubRouter.from_gossipsub([PROTOCOL_ID], 6, 4, 12, **options)


def test_the_types_name_every_argument() -> None:
    named = {*signature(EpisubRouter.from_gossipsub).parameters, *GossipSubOptions.__annotations__}
    theirs = set(signature(GossipSub).parameters)
    own = set(signature(EpisubRouter).parameters) - {"fallback", "direct_peers"}
    assert named - {"options"} == theirs | own


def test_a_refusal_says_what_there_is_instead() -> None:
    with pytest.raises(ValueError, match=r"gossip_window: BroadcastParams\.cache_ttl says"):
        EpisubRouter.from_gossipsub([PROTOCOL_ID], 6, 4, 12, gossip_window=9)


@pytest.mark.parametrize(
    "asked",
    [
        {"max_messages_per_topic_per_second": 500.0},
        {"gossip_window": 2, "gossip_history": 4},
        {"max_idontwant_messages": 500},
    ],
)
def test_what_is_more_generous_here_than_asked_is_taken(asked: dict[str, Any]) -> None:
    EpisubRouter.from_gossipsub([PROTOCOL_ID], 6, 4, 12, **asked)


def test_what_gossipsub_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match="degre"):
        EpisubRouter.from_gossipsub([PROTOCOL_ID], 6, 4, 12, degre=6)
    with pytest.raises(TypeError, match="degree"):
        EpisubRouter.from_gossipsub([PROTOCOL_ID])


def test_defaults_and_what_holds_here_are_taken() -> None:
    EpisubRouter.from_gossipsub(
        *([PROTOCOL_ID_V14], 6, 4, 12),
        score_params=None,
        do_px=False,
        gossip_window=3,
        adaptive_gossip_enabled=False,
        spam_protection_enabled=False,
    )


@pytest.mark.hosts
@pytest.mark.parametrize("speaks_episub", [False, True])
async def test_a_direct_peer_is_connected_to_and_sent_everything(speaks_episub: bool) -> None:
    make = EpisubRouter if speaks_episub else bounded_gossipsub
    async with running_nodes(1, router=make) as [other]:
        info = PeerInfo(other.id, other.info.addrs)
        node_router = EpisubRouter.from_gossipsub(
            [PROTOCOL_ID_V12], 6, 4, 12, direct_peers=[info], direct_connect_interval=1
        )
        nodes = running_nodes(1, router=lambda: node_router, pubsub_class=ResilientPubsub, seed=1)
        async with nodes as [node]:
            assert node_router.pubsub is node.pubsub
            assert list(node_router.direct_peers) == [other.id]
            await node.pubsub.wait_for_peer(other.id, timeout=PATIENCE)
            network = node.host.get_network()
            assert network.is_protected(other.id)
            await other.host.disconnect(node.id)
            await eventually(lambda: other.id not in node.pubsub.peers)
            await node.pubsub.wait_for_peer(other.id, timeout=PATIENCE)
            await other.pubsub.wait_for_peer(node.id, timeout=PATIENCE)
            subscriptions = [await each.pubsub.subscribe(TOPIC) for each in (node, other)]
            await node.pubsub.wait_for_subscription(other.id, TOPIC, timeout=PATIENCE)
            await node.pubsub.publish(TOPIC, b"hello")
            assert [m.data for m in await receive(subscriptions[1])] == [b"hello"]
            if not speaks_episub:
                assert other.id not in node_router.mesh[TOPIC]


@pytest.mark.hosts
async def test_own_messages_bring_the_signed_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (a, b):
        await connect(a, b)
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in (a, b)]
        await a.pubsub.wait_for_mesh(b.id, TOPIC, timeout=PATIENCE)
        seen: list[bytes] = []
        queue = a.pubsub.peer_queues[b.id]
        push = queue.push

        def spy(rpc: Any, priority: bool = False) -> bool:
            if rpc.publish:
                seen.append(rpc.senderRecord)
            return push(rpc, priority)

        monkeypatch.setattr(queue, "push", spy)
        await a.pubsub.publish(TOPIC, b"hello")
        await receive(subscriptions[1])
        assert [len(record) > 0 for record in seen] == [True]
