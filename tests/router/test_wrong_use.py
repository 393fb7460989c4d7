"""Wrong use is refused with an error that says what was wrong."""

from __future__ import annotations

from typing import Any

import pytest
from libp2p import new_host
from libp2p.pubsub.floodsub import PROTOCOL_ID as FLOODSUB
from libp2p.pubsub.floodsub import FloodSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

import episub_router
from episub_router import (
    BroadcastParams,
    EpisubParams,
    EpisubRouter,
    FallbackParams,
    MembershipParams,
    PubsubParams,
    ResilientPubsub,
    RouterNotRunning,
    RouterParams,
)
from tests.hosts import LOOPBACK, receive, running_nodes

ADDRESS = "/ip4/10.0.0.1/tcp/4001/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bootstrap": ADDRESS}, r"bootstrap must be a list of multiaddrs, .* write \['/ip4/"),
        ({"bootstrap": Multiaddr(ADDRESS)}, r"bootstrap must be a list .* write \['/ip4/"),
        ({"bootstrap": 4001}, "bootstrap must be a list of multiaddrs: 4001"),
        ({"params": MembershipParams()}, "params must be an EpisubParams or None, not Membership"),
        ({"params": EpisubParams}, "params must be an EpisubParams or None, not the class Episub"),
        ({"router_params": PubsubParams()}, "router_params must be a RouterParams or None, not Pu"),
        ({"fallback": RouterParams()}, "fallback must be a FallbackParams or None, not RouterPar"),
        ({"seed": "1"}, "seed must be an int or None, not str"),
        ({"tracer": "trace.pb"}, "tracer must be a Tracer or None, not str"),
        ({"protected_topics": "news"}, "protected_topics must be several strings, .* not a str"),
        ({"protected_topics": [b"news"]}, "each of protected_topics must be a str, not bytes"),
        ({"protected_topics": 1}, "protected_topics must have the methods __iter__; int hasn't"),
        ({"discovery": object()}, r"discovery must be a list, like \[DhtDiscovery\(dht\)\]"),
        ({"discovery": [object()]}, "discovery must have the methods find, provide, withdraw; ob"),
        ({"discovery": [FallbackParams]}, "the methods find, provide, withdraw; the class Fallb"),
    ],
)
def test_arguments_of_a_router(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        EpisubRouter(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"params": RouterParams()}, "params must be a PubsubParams or None, not RouterParams"),
        ({"tracer": "trace.pb"}, "tracer must be a Tracer or None, not str"),
    ],
)
def test_arguments_of_a_pubsub(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ResilientPubsub(new_host(), EpisubRouter(), **arguments)


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        ("", ValueError, "a topic must take 1 to 1024 bytes of UTF-8, not 0"),
        ("x" * 2000, ValueError, "a topic must take 1 to 1024 bytes of UTF-8, not 2000"),
        (b"news", TypeError, "topic_id must be a str, not bytes"),
    ],
)
async def test_what_can_not_be_subscribed(topic: Any, error: type[Exception], message: str) -> None:
    pubsub = ResilientPubsub(new_host(), EpisubRouter())
    with pytest.raises(error, match=message):
        await pubsub.subscribe(topic)
    assert not pubsub.topic_ids


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"listen": "/ip4/127.0.0.1/tcp/0"}, TypeError, r"listen must be a list .* write \['/ip4/"),
        ({"announce": ["here"]}, ValueError, "announce: 'here' is no multiaddr"),
        ({"router": EpisubParams()}, TypeError, "router must be an EpisubRouter or None, not Epis"),
        ({"pubsub": EpisubRouter()}, TypeError, "pubsub must be a ResilientPubsub or None, not E"),
        ({"key_pair": b"key"}, TypeError, "key_pair must be a KeyPair or None, not bytes"),
        ({"validator": True}, TypeError, "validator must be a function or None, not bool"),
        ({"metrics": "9464"}, TypeError, "metrics must be an int or None, not str"),
    ],
)
async def test_arguments_of_open(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        async with episub_router.open("news", **arguments):
            pass


@pytest.mark.parametrize(
    ("seconds", "error", "message"),
    [
        ("3", TypeError, "timeout must be a number of seconds, not str"),
        (-1, ValueError, "timeout must be at least 0 seconds, not -1"),
        (float("nan"), ValueError, "timeout must be at least 0 seconds, not nan"),
    ],
)
async def test_seconds_that_are_none(seconds: Any, error: type[Exception], message: str) -> None:
    router = EpisubRouter()
    pubsub = ResilientPubsub(new_host(), router)
    with pytest.raises(error, match=message):
        await router.joined("news", seconds)
    with pytest.raises(error, match=message):
        await pubsub.publish("news", b"", timeout=seconds)


def test_a_parameter_that_is_no_number() -> None:
    with pytest.raises(TypeError, match="cache_ttl must be a number, not str: '45'"):
        BroadcastParams(cache_ttl="45")  # type: ignore[arg-type]


@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
def test_one_router_in_two_pubsubs(pubsub_class: type[Pubsub]) -> None:
    router = EpisubRouter()
    pubsub_class(new_host(), router)
    with pytest.raises(RuntimeError, match="in another Pubsub already: make an EpisubRouter for"):
        pubsub_class(new_host(), router)


@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
def test_two_pubsubs_on_one_host(pubsub_class: type[Pubsub]) -> None:
    host = new_host()
    pubsub_class(host, EpisubRouter())
    with pytest.raises(RuntimeError, match="the host has a Pubsub already, which serves /episub/"):
        pubsub_class(host, EpisubRouter())


def test_routers_without_a_protocol_in_common_share_a_host() -> None:
    host = new_host()
    ResilientPubsub(host, FloodSub([FLOODSUB]))
    ResilientPubsub(host, EpisubRouter(fallback=None))


@pytest.mark.hosts
async def test_a_pubsub_after_one_that_has_stopped() -> None:
    host = new_host()
    async with host.run([LOOPBACK]):
        for _ in range(2):
            router = EpisubRouter()
            pubsub = ResilientPubsub(host, router)
            async with background_trio_service(pubsub), background_trio_service(router):
                await pubsub.subscribe("news")
                await pubsub.publish("news", b"hello")


@pytest.mark.hosts
@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
async def test_publishing_while_the_router_is_not_running(pubsub_class: type[Pubsub]) -> None:
    host, router = new_host(), EpisubRouter()
    pubsub = pubsub_class(host, router)
    async with host.run([LOOPBACK]), background_trio_service(pubsub):
        await pubsub.subscribe("news")
        with pytest.raises(RouterNotRunning, match="router's service isn't running: publish insid"):
            await pubsub.publish("news", b"before")
        async with background_trio_service(router):
            await pubsub.publish("news", b"during")
        with pytest.raises(RouterNotRunning):
            await pubsub.publish("news", b"after")


@pytest.mark.hosts
async def test_a_stock_pubsub_that_has_stopped_still_delivers_to_itself() -> None:
    """As with py-libp2p's GossipSub, whose tests do so."""
    host, router = new_host(), EpisubRouter()
    pubsub = Pubsub(host, router)
    async with host.run([LOOPBACK]):
        async with background_trio_service(pubsub):
            subscription = await pubsub.subscribe("news")
        await pubsub.publish("news", b"hello")
        assert [message.data for message in await receive(subscription)] == [b"hello"]


@pytest.mark.hosts
async def test_what_can_not_be_published() -> None:
    async with running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub) as [node]:
        publish: Any = node.pubsub.publish
        with pytest.raises(TypeError, match="data must be bytes, not str"):
            await publish("news", "hello")
        with pytest.raises(TypeError, match="a topic must be a str, not bytes"):
            await publish([b"news"], b"hello")
        with pytest.raises(ValueError, match="a topic must take 1 to 1024 bytes of UTF-8, not 10"):
            await publish("n" * 1025, b"hello")
