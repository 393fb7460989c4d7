"""Prometheus metrics of a node, and their documentation."""

from __future__ import annotations

from enum import Enum

import pytest
from prometheus_client import CollectorRegistry

from episub_router import EpisubRouter, NodeCollector, PubsubDrop, ResilientPubsub
from episub_router.net.address_book import RecordFault
from episub_router.net.counters import Reason
from episub_router.protocol.effects import DropReason
from episub_router.wire import WireFault
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE, connect, receive, running_nodes
from tests.router.overlays import TOPIC, router

TEXT = (ROOT / "docs" / "metrics-node.md").read_text()


@pytest.mark.parametrize("reasons", [Reason, DropReason, WireFault, RecordFault, PubsubDrop])
def test_every_counter_is_documented(reasons: type[Enum]) -> None:
    assert not [reason.value for reason in reasons if f"| `{reason.value}` | " not in TEXT]


@pytest.mark.hosts
async def test_what_two_nodes_report() -> None:
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (one, two):
        registry = CollectorRegistry()
        registry.register(NodeCollector(two.pubsub, router(two)))
        await connect(one, two)
        [_, subscription] = [await node.pubsub.subscribe(TOPIC) for node in (one, two)]
        for node in (one, two):
            await router(node).joined(TOPIC, timeout=PATIENCE)
        await one.pubsub.publish(TOPIC, b"theirs")
        await two.pubsub.publish(TOPIC, b"ours")
        await receive(subscription, 2)
        topic = {"topic": TOPIC}
        assert registry.get_sample_value("gossipsub_peers_total", topic) == 1
        assert registry.get_sample_value("gossipsub_mesh_peers_total", topic) == 1
        assert registry.get_sample_value("gossipsub_message_delivered_total", topic) == 2
        assert registry.get_sample_value("gossipsub_message_published_total", topic) == 1
        event = {"event": "payloads-received"}
        assert registry.get_sample_value("episub_events_total", event) == 1
        names = {metric.name for metric in registry.collect()}
        assert not [name for name in names if f"`{name}" not in TEXT]
