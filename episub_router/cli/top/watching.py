"""The run of `episub top`: a node that only listens, looked at now and then."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio
from libp2p.abc import ISubscriptionAPI
from rich.console import Console, RenderableType
from rich.live import Live

from episub_router import EpisubRouter
from episub_router.cli.host import running_pubsub
from episub_router.cli.sight import report_events
from episub_router.cli.top.view import View


async def watch(arguments: Namespace) -> None:
    """Join the topic, and show what this node sees of it until `--seconds` are over.

    Raises OSError for an occupied port.
    """
    console = Console()
    router = EpisubRouter(bootstrap=arguments.bootstrap)
    async with running_pubsub(arguments, router) as pubsub:
        subscription = await pubsub.subscribe(arguments.topic)
        view = View(arguments.topic, str(pubsub.host.get_addrs()[0]))
        with trio.move_on_after(arguments.seconds or math.inf):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read, subscription, view)
                nursery.start_soon(report_events, router.events(arguments.topic), view.note)
                with _screen(console) as show:
                    while True:
                        await trio.sleep(arguments.interval)
                        view.look(router.overlay(arguments.topic), trio.current_time())
                        show(view.rendered())


async def _read(subscription: ISubscriptionAPI, view: View) -> None:
    while True:
        view.received(len((await subscription.get()).data))


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """A function that shows something in place of what it showed before, or below it where there
    is no terminal."""
    if not console.is_terminal:
        yield console.print
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda shown: live.update(shown, refresh=True)
