"""`episub top`: what it shows of a topic that two nodes are in."""

from __future__ import annotations

import pytest

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.cli.arguments import Parser
from episub_router.cli.top import command
from episub_router.cli.top.watching import watch
from tests.hosts import running_nodes
from tests.router.overlays import TOPIC


@pytest.mark.hosts
async def test_neighbours_rates_and_news(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser()
    command.add_parser(parser.add_subparsers())
    async with running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub) as [node]:
        await node.pubsub.subscribe(TOPIC)
        [address] = node.info.addrs
        words = ["top", "--topic", TOPIC, "--bootstrap", f"{address}/p2p/{node.id}"]
        await watch(parser.parse_args([*words, "--interval", "0.1", "--seconds", "1.5"]))
    views = capsys.readouterr().out.split(f"{TOPIC} from ")
    assert "a second: -" in views[1]
    assert "1 neighbours" in views[-1]
    assert str(node.id)[-8:] in views[-1]
    assert "a second: messages 0.0, bytes 0.0, copies 0.0" in views[-1]
    assert f"- neighbour {str(node.id)[-8:]} came; there are 1" in views[-1]
