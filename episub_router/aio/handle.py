"""`episub_router.open` under asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import cast

from libp2p.crypto.keys import KeyPair
from libp2p.custom_types import AsyncValidatorFn
from libp2p.peer.id import ID
from multiaddr import Multiaddr

from episub_router import handle
from episub_router.aio.trio_thread import (
    MOST_FETCHED,
    Iteration,
    TrioThread,
    iterate,
    thread_of_the_loop,
)
from episub_router.handle import Validator, is_async
from episub_router.host import LOOPBACK
from episub_router.net.events import TopicEvent
from episub_router.pubsub import PubsubParams, ResilientPubsub
from episub_router.pubsub.subscription import Item
from episub_router.router import EpisubRouter


class AsyncioTopic(Iteration[Item]):
    """`episub_router.TopicHandle` for asyncio. `pubsub` and `router` belong to trio: call their
    async methods with `aio.call`."""

    def __init__(self, thread: TrioThread, below: handle.TopicHandle) -> None:
        super().__init__(thread, lambda: below.take(MOST_FETCHED))
        self._below = below
        self.topic = below.topic
        self.pubsub = below.pubsub
        self.router = below.router

    async def publish(self, data: bytes, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """As `episub_router.TopicHandle.publish`."""
        await self._thread.call(self._below.publish, data, timeout=timeout)

    async def publish_nowait(self, data: bytes) -> None:
        """As `episub_router.TopicHandle.publish_nowait`."""
        await self._thread.call(self._below.publish_nowait, data)

    async def joined(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109
        """As `episub_router.TopicHandle.joined`."""
        await self._thread.call(self._below.joined, timeout)

    def events(self) -> AsyncIterator[TopicEvent]:
        """What happens in the topic from now on, for `async for`."""
        return iterate(self._below.events())

    @property
    def neighbors(self) -> tuple[ID, ...]:
        """The present neighbours, of Episub and of gossipsub."""
        return self._below.neighbors

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """The node's full addresses, with /p2p/, which others bootstrap from."""
        return self._below.addresses


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
) -> AsyncIterator[AsyncioTopic]:
    """As `episub_router.open`, for asyncio. A `validator` runs in the asyncio loop if it is a
    coroutine function, otherwise in trio's thread."""
    thread = thread_of_the_loop()
    if validator is not None and is_async(validator):
        validator = thread.from_asyncio(cast(AsyncValidatorFn, validator))

    async with (
        thread.used(),
        thread.enter(
            lambda: handle.open(
                topic,
                bootstrap=bootstrap,
                listen=listen,
                announce=announce,
                key_pair=key_pair,
                router=router,
                pubsub=pubsub,
                pubsub_params=pubsub_params,
                validator=validator,
                history=history,
                metrics=metrics,
            )
        ) as below,
    ):
        yield AsyncioTopic(thread, below)
