"""`episub_router.open`: a topic of a node that it starts, or of one that runs."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from multiaddr import protocols

import episub_router
from episub_router import (
    EpisubRouter,
    Joined,
    Lagged,
    NeighborDown,
    NodeStopped,
    PubsubDrop,
    PubsubParams,
    ResilientPubsub,
    TopicHandle,
    metrics,
)
from episub_router.addresses import check_free
from episub_router.host import EpisubHost, running
from episub_router.net.connections.kernel import socket_below
from episub_router.protocol.effects import DownReason
from tests.hosts import PATIENCE, bounded_gossipsub, eventually, free_port

pytestmark = pytest.mark.hosts


async def data_of(handle: TopicHandle) -> bytes:
    with trio.fail_after(PATIENCE):
        item = await anext(handle)
    assert isinstance(item, Message)
    return item.data


async def test_two_nodes_of_a_topic() -> None:
    async with (
        episub_router.open("news") as one,
        episub_router.open("news", bootstrap=one.addresses) as two,
    ):
        events = two.events()
        for handle in (one, two):
            await handle.joined(PATIENCE)
        assert two.neighbors == (one.pubsub.my_id,)
        assert isinstance([await anext(events) for _ in range(2)][1], Joined)
        await one.publish(b"hello")
        await one.publish_nowait(b"again")
        assert [await data_of(two), await data_of(two)] == [b"hello", b"again"]
    assert [item async for item in two if isinstance(item, Lagged)] == []


async def test_another_topic_of_a_node() -> None:
    async with episub_router.open("news") as news:
        async with episub_router.open("sport", pubsub=news.pubsub) as sport:
            await sport.publish(b"goal")
            assert await data_of(sport) == b"goal"
            with pytest.raises(ValueError, match="'news' is subscribed already"):
                async with episub_router.open("news", pubsub=news.pubsub):
                    pass
        assert set(news.pubsub.topic_ids) == {"news"}


async def test_what_is_published_last_arrives() -> None:
    async with episub_router.open("news") as one:
        async with episub_router.open("news", bootstrap=one.addresses) as two:
            await two.joined(PATIENCE)
            for number in range(50):
                await two.publish(bytes([number]))
        assert [await data_of(one) for _ in range(50)] == [bytes([n]) for n in range(50)]


@pytest.mark.parametrize("how", ["leaves", "fails", "is cancelled"])
async def test_neighbours_are_told_of_a_node_that_leaves(how: str) -> None:
    """Without a goodbye they would dial it again and again."""
    async with episub_router.open("news") as one:
        events = one.events()
        with trio.CancelScope() as scope, suppress(KeyError):
            async with episub_router.open("news", bootstrap=one.addresses) as two:
                await two.joined(PATIENCE)
                await one.joined(PATIENCE)
                if how == "fails":
                    raise KeyError
                if how == "is cancelled":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        with trio.fail_after(PATIENCE):
            down = await anext(event async for event in events if isinstance(event, NeighborDown))
        assert down.reason is DownReason.LEFT


class Ends(Exception):
    pass


@pytest.mark.parametrize("how", ["leaves", "raises", "is cancelled"])
async def test_no_socket_stays_open(how: str) -> None:
    """Neighbours would take the node for a silent one, and its port stay taken."""
    async with episub_router.open("news") as one:
        with trio.CancelScope() as scope, suppress(Ends):
            async with episub_router.open("news", bootstrap=one.addresses) as two:
                await two.joined(PATIENCE)
                address = two.addresses[0]
                [connection] = two.pubsub.host.get_network().get_connections()
                socket = socket_below(connection.muxed_conn)
                if how == "raises":
                    raise Ends
                if how == "is cancelled":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        assert socket is not None
        assert socket.fileno() == -1
        check_free(address.decapsulate_code(protocols.P_P2P))
        await eventually(lambda: not one.pubsub.host.get_network().get_connections())


async def test_a_port_for_metrics_that_is_taken() -> None:
    port = free_port()
    async with episub_router.open("news", metrics=port):
        with pytest.raises(OSError, match=f"can't serve metrics on port {port}: Address already"):
            async with episub_router.open("news", metrics=port):
                pass


async def test_the_log_says_where_metrics_are_served(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "episub_router"):
        async with episub_router.open("news", metrics=0):
            [line] = [r.getMessage() for r in caplog.records if r.name == metrics.__name__]
            port = int(line.removeprefix("metrics at http://127.0.0.1:").removesuffix("/metrics"))
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"GET /metrics HTTP/1.0\r\n\r\n")
                assert b"200 OK" in await stream.receive_some()


async def test_a_server_of_metrics_is_waited_for_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may take half a second to stop, in which the node would answer nobody."""
    stopped_in: list[threading.Thread] = []
    server = Mock(server_port=1)
    server.shutdown = lambda: stopped_in.append(threading.current_thread())
    monkeypatch.setattr(metrics, "start_http_server", lambda *_, **__: (server, None))
    async with episub_router.open("news", metrics=0):
        pass
    assert stopped_in
    assert threading.current_thread() not in stopped_in


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"metrics": 99_999}, ValueError, "metrics must be a port, from 0 to 65535, not 99999"),
        ({"listen": [4001]}, TypeError, "listen: 4001 is no multiaddr, nor the text of one"),
        ({"validator": 1}, TypeError, "validator must be a function or None, not int"),
        ({"history": "no"}, TypeError, "history must be a bool or None, not str"),
        ({"listen": ["/ip4/127.0.0.1/udp/1"]}, OSError, "can't listen on .*udp/1: only TCP is"),
    ],
)
async def test_arguments_that_mean_nothing(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        async with episub_router.open("news", **arguments):
            pass


NOWHERE = "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap", [NOWHERE]),
        ("listen", ["/ip4/0.0.0.0/tcp/0"]),
        ("announce", ["/ip4/192.0.2.1/tcp/4001"]),
        ("key_pair", create_new_key_pair()),
        ("router", EpisubRouter()),
        ("pubsub_params", PubsubParams()),
    ],
)
async def test_arguments_that_would_have_no_effect_are_refused(name: str, value: Any) -> None:
    given: Any = {name: value}
    pubsub = ResilientPubsub(new_host(), EpisubRouter())
    with pytest.raises(ValueError, match=f"{name} and pubsub exclude each other"):
        async with episub_router.open("news", pubsub=pubsub, **given):
            pass
    if name == "bootstrap":
        with pytest.raises(ValueError, match="bootstrap and router exclude each other"):
            async with episub_router.open("news", router=EpisubRouter(), **given):
                pass


async def test_the_pubsub_of_another_router() -> None:
    pubsub = ResilientPubsub(new_host(), bounded_gossipsub())
    with pytest.raises(TypeError, match=r"pubsub\.router must be an EpisubRouter, not GossipSub"):
        async with episub_router.open("news", pubsub=pubsub):
            pass


class IsANumber:
    async def __call__(self, forwarder: ID, message: Message) -> bool:
        await trio.lowlevel.checkpoint()
        return message.data.isdigit()


async def test_an_object_that_is_called_as_a_coroutine_function_validates() -> None:
    async with (
        episub_router.open("numbers", validator=IsANumber()) as one,
        episub_router.open("numbers", bootstrap=one.addresses) as two,
    ):
        await two.joined(PATIENCE)
        for data in (b"one", b"2"):
            await two.publish(data)
        assert await data_of(one) == b"2"


async def test_a_validator_that_nobody_awaits_accepts_nothing() -> None:
    """A coroutine is true."""
    async with (
        episub_router.open("numbers", validator=lambda *given: IsANumber()(*given)) as one,
        episub_router.open("numbers", bootstrap=one.addresses) as two,
    ):
        await two.joined(PATIENCE)
        await two.publish(b"1")
        await eventually(lambda: bool(one.pubsub.drops))
        assert one.pubsub.drops == {PubsubDrop.MESSAGE_UNVERIFIABLE: 1}
        with pytest.raises(TypeError, match=r"lambda.* must be a coroutine function"):
            await one.publish(b"1")
        await one.pubsub.unsubscribe("numbers")
        assert [item async for item in one] == []


async def test_a_reader_that_is_behind_is_told_what_it_missed() -> None:
    params = PubsubParams(subscription_buffer=1)
    async with episub_router.open("news", pubsub_params=params) as handle:
        for number in range(3):
            # Not the handle's, which waits for this node's own readers.
            await handle.pubsub.send_message(["news"], bytes([number]))
        assert await data_of(handle) == b"\0"
        assert await anext(handle) == Lagged(2)


async def test_an_error_of_the_body_comes_out_as_itself() -> None:
    with pytest.raises(KeyError) as caught:
        async with episub_router.open("news"):
            raise KeyError("mine")
    assert caught.value.args == ("mine",)
    group = ExceptionGroup("two", [KeyError(1), KeyError(2)])
    with pytest.raises(ExceptionGroup) as caught_group:
        async with episub_router.open("news"):
            raise group
    assert caught_group.value is group


async def test_cancelling_the_body_is_no_error() -> None:
    with trio.move_on_after(0.5) as scope:
        async with episub_router.open("news") as handle:
            await anext(handle)
    assert scope.cancelled_caught


async def test_a_node_that_dies_ends_the_body(caplog: pytest.LogCaptureFixture) -> None:
    node = EpisubHost(EpisubRouter())

    async def broken() -> None:
        raise RuntimeError("broken")

    with pytest.raises(NodeStopped, match=r"the node stopped: .*broken"):  # noqa: PT012
        async with running(node):
            node.pubsub.manager.run_task(broken)
            await trio.sleep_forever()
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert [line for line in errors if line.startswith("stopped: ") and "broken" in line]


async def test_a_port_that_is_taken() -> None:
    async with episub_router.open("news") as one:
        taken = str(one.addresses[0]).partition("/p2p/")[0]
        with pytest.raises(OSError, match="can't listen on"):
            async with episub_router.open("news", listen=[taken]):
                pass


async def test_the_addresses_that_others_are_given() -> None:
    async with episub_router.open("news", announce=["/ip4/192.0.2.1/tcp/4001"]) as handle:
        assert [str(a).partition("/p2p/")[0] for a in handle.addresses] == [
            "/ip4/192.0.2.1/tcp/4001"
        ]
