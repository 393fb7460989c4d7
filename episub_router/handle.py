"""The short way in: a topic as a handle, with the host, the pubsub and the router behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import iscoroutinefunction
from typing import TypeAlias

import trio
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from multiaddr import Multiaddr

from episub_router.addresses import parse_addresses
from episub_router.host import FAREWELL, LOOPBACK, EpisubHost, frames_arrive, running
from episub_router.metrics import served
from episub_router.net.events import EventStream
from episub_router.pubsub import PubsubParams, ResilientPubsub
from episub_router.pubsub.subscription import Item, Subscription
from episub_router.router import EpisubRouter
from episub_router.util.checks import check_type

Validator: TypeAlias = Callable[[ID, Message], bool] | Callable[[ID, Message], Awaitable[bool]]
"""Given the peer that forwarded a message and the message: whether it is valid."""


class TopicHandle(AsyncIterator[Item]):
    """One topic of a running node, made by `open`: publish to it, and iterate over its messages.

    If the reader was behind and messages were dropped, iteration gives a `Lagged` in their place.
    It ends when the topic is left.
    """

    def __init__(self, topic: str, pubsub: ResilientPubsub, subscription: Subscription) -> None:
        assert isinstance(pubsub.router, EpisubRouter)
        self.topic = topic
        self.pubsub = pubsub
        self.router = pubsub.router
        self._subscription = subscription

    def __aiter__(self) -> TopicHandle:
        return self

    async def __anext__(self) -> Item:
        for item in await self.take(1):
            return item
        raise StopAsyncIteration

    async def take(self, most: int) -> Sequence[Item]:
        """Wait for the next item, and return those that are there then, at most `most`; none once
        the topic is left and all is read."""
        return await self._subscription.take(most)

    async def publish(
        self,
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> None:
        """Publish `data`. Waits while a neighbour is behind; raises the errors of
        `ResilientPubsub.publish`."""
        await self.pubsub.publish(self.topic, data, timeout=timeout)

    async def publish_nowait(self, data: bytes) -> None:
        """Publish `data`, or raise BacklogFull if `publish` would wait."""
        await self.pubsub.publish_nowait(self.topic, data)

    async def joined(
        self,
        timeout: float = 30.0,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> None:
        """Wait for a neighbour. After `timeout` seconds raises NotJoined, with the reasons."""
        await self.router.joined(self.topic, timeout)

    def events(self) -> EventStream:
        """What happens in the topic from now on, for `async for`."""
        return self.router.events(self.topic)

    @property
    def neighbors(self) -> tuple[ID, ...]:
        """The present neighbours, of Episub and of gossipsub."""
        return tuple(self.router.mesh.get(self.topic, ()))

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """The node's full addresses, with /p2p/, which others bootstrap from."""
        return tuple(self.pubsub.host.get_addrs())


@asynccontextmanager
async def open(
    topic: str,
    *,
    bootstrap: Iterable[Multiaddr | str] = (),
    listen: Iterable[Multiaddr | str] = (LOOPBACK,),
    announce: Iterable[Multiaddr | str] = (),
    key_pair: KeyPair | None = None,
    router: EpisubRouter | None = None,
    pubsub: ResilientPubsub | None = None,
    pubsub_params: PubsubParams | None = None,
    validator: Validator | None = None,
    history: bool | None = None,
    metrics: int | None = None,
) -> AsyncIterator[TopicHandle]:
    """A handle on `topic`, for as long as the context lasts.

    It starts a node, which joins through the full addresses in `bootstrap`, listens at `listen` (by
    default on this machine only; RELAY/p2p-circuit is a place at a relay), and gives others the
    addresses in `announce`, by default those that it listens at. `key_pair` is its identity, by
    default a new one. `router` brings other parameters, discoveries and the like; it has its own
    `bootstrap`. `pubsub_params` are those of its `ResilientPubsub`.

    With `pubsub`, which must run with an `EpisubRouter`, the topic is a further one of that node,
    and none of the arguments above may be given. `validator` judges each message, from the first
    on. `history` is that of `ResilientPubsub.subscribe`. `metrics` is a port of this machine at
    which Prometheus finds the node's metrics.

    What the body raises comes out unchanged. Leaving waits at most two seconds until the neighbours
    have what was published, and as long for the goodbye. Raises OSError for an address that can't
    be listened at, ValueError for bad addresses, for a topic that is subscribed already and for
    arguments that exclude each other, NodeStopped if the node dies.
    """
    check_type("router", router, EpisubRouter, optional=True)
    check_type("pubsub", pubsub, ResilientPubsub, optional=True)
    check_type("key_pair", key_pair, KeyPair, optional=True)
    check_type("metrics", metrics, int, optional=True)
    if not (validator is None or callable(validator)):
        raise TypeError(f"validator must be a function or None, not {type(validator).__name__}")
    listen, announce = parse_addresses("listen", listen), parse_addresses("announce", announce)
    if router is not None:
        _check_none("router", bootstrap=bootstrap)
    if pubsub is not None:
        check_type("pubsub.router", pubsub.router, EpisubRouter)
        _check_none(
            "pubsub",
            bootstrap=bootstrap,
            listen=listen != [LOOPBACK],
            announce=announce,
            key_pair=key_pair,
            router=router,
            pubsub_params=pubsub_params,
        )
    async with AsyncExitStack() as stack:
        if pubsub is None:
            node = EpisubHost(
                EpisubRouter(bootstrap=bootstrap) if router is None else router,
                key_pair=key_pair,
                listen=listen,
                announce=announce,
                pubsub_params=pubsub_params,
            )
            await stack.enter_async_context(running(node))
            pubsub = node.pubsub
        elif topic in pubsub.topic_ids:
            raise ValueError(f"{topic!r} is subscribed already: its messages would be divided")
        assert isinstance(pubsub.router, EpisubRouter)
        if metrics is not None:
            await stack.enter_async_context(served(metrics, pubsub, pubsub.router))
        if validator is not None:
            pubsub.set_topic_validator(topic, validator, is_async(validator))
            stack.callback(pubsub.remove_topic_validator, topic)
        subscription = await pubsub.subscribe(topic, history=history)
        handle = TopicHandle(topic, pubsub, subscription)
        try:
            yield handle
            if handle.neighbors:
                await frames_arrive(pubsub.host, handle.router, handle.neighbors)
        finally:
            neighbors = handle.neighbors
            with trio.CancelScope(deadline=trio.current_time() + FAREWELL, shield=True):
                await subscription.unsubscribe()
                if neighbors:
                    await frames_arrive(pubsub.host, handle.router, neighbors)


def is_async(validator: Validator) -> bool:
    """Whether `validator` is a coroutine function, or an object that is called as one."""
    return iscoroutinefunction(validator) or iscoroutinefunction(type(validator).__call__)


def _check_none(owner: str, **given: object) -> None:
    """Raises ValueError for the first of `given` that isn't empty: `owner` has its own."""
    for name, value in given.items():
        if value:
            raise ValueError(f"{name} and {owner} exclude each other: {owner} has its own {name}")
