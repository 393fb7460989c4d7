"""Prometheus metrics of a node, and their documentation."""

from __future__ import annotations

import re
import shutil
from enum import Enum
from pathlib import Path

import pytest
from libp2p import new_host
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from episub_router import EpisubRouter, NodeCollector, PubsubDrop, ResilientPubsub
from tests import children
from tests.docs.counters import COUNTERS, meanings
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE, connect, receive, running_nodes
from tests.router.overlays import TOPIC, router

TEXT = (ROOT / "docs" / "metrics-node.md").read_text()


@pytest.mark.parametrize("reasons", [each for kind in COUNTERS.values() for each in kind])
def test_every_counter_is_documented(reasons: type[Enum]) -> None:
    assert meanings(reasons).keys() == {reason.value for reason in reasons}
    assert not [reason.value for reason in reasons if f"| `{reason.value}` | " not in TEXT]


def test_several_nodes_in_one_registry() -> None:
    one_router, two_router = EpisubRouter(), EpisubRouter()
    one = ResilientPubsub(new_host(), one_router)
    two = ResilientPubsub(new_host(), two_router)
    registry = CollectorRegistry(auto_describe=True)
    collector = NodeCollector(one, one_router, {"node": "a"})
    registry.register(collector.add(two, two_router, {"node": "b"}))
    two.drops[PubsubDrop.FRAME_EMPTY] = 3
    for node, count in (("a", 0), ("b", 3)):
        labels = {"node": node, "reason": "frame-empty"}
        assert registry.get_sample_value("episub_pubsub_dropped_total", labels) == count
    with pytest.raises(ValueError, match="another node has these labels"):
        collector.add(two, two_router, {"node": "b"})
    with pytest.raises(ValueError, match=r"labels must be \('node',\), as for the first node"):
        collector.add(two, two_router)
    with pytest.raises(TypeError, match="router must be an EpisubRouter, not NoneType"):
        NodeCollector(one, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the label node must be a str, not int"):
        NodeCollector(one, one_router, {"node": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="labels must be a Mapping or None, not list"):
        NodeCollector(one, one_router, ["node"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["topic", "event", "kind", "reason", "le", "", "a b", "__name__"])
def test_a_label_that_a_metric_has_or_prometheus_does_not_take(name: str) -> None:
    router = EpisubRouter()
    with pytest.raises(ValueError, match=f"a label can't be called '{name}'"):
        NodeCollector(ResilientPubsub(new_host(), router), router, {name: "a"})


@pytest.mark.hosts
async def test_what_prometheus_finds_wrong(tmp_path: Path) -> None:
    """`promtool check metrics` where it is installed, and its rules in any case."""
    async with running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub) as [node]:
        registry = CollectorRegistry()
        registry.register(NodeCollector(node.pubsub, router(node)))
        await node.pubsub.subscribe(TOPIC)
        await node.pubsub.publish(TOPIC, b"hello")
        text = generate_latest(registry)
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert len(families) == len(list(registry.collect())) >= 7
    for name, family in families.items():
        assert family.documentation
        assert re.fullmatch("[a-z][a-z_]*", name)
        if family.type == "histogram":
            assert name.endswith("_seconds")
            continue
        suffix = max(({s.name.removeprefix(name) for s in family.samples}), default="")
        assert (suffix == "_total") == (family.type == "counter") or not family.samples
        assert family.type == "counter" or not name.endswith(("_total", "_count", "_sum"))
        assert not re.search("_(ms|milliseconds|minutes|kilobytes|kb|info)(_|$)", name)
    promtool = shutil.which("promtool")
    if promtool is not None:
        served = tmp_path / "metrics"
        served.write_bytes(text)
        with served.open() as stdin:
            checked = children.run([promtool, "check", "metrics"], stdin=stdin, capture_output=True)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


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
        assert registry.get_sample_value("gossipsub_peers", topic) == 1
        assert registry.get_sample_value("gossipsub_mesh_peers", topic) == 1
        assert registry.get_sample_value("gossipsub_message_delivered_total", topic) == 2
        assert registry.get_sample_value("gossipsub_message_published_total", topic) == 1
        delay = "episub_delivery_delay_seconds"
        assert registry.get_sample_value(f"{delay}_count") == 1
        assert registry.get_sample_value(f"{delay}_bucket", {"le": "+Inf"}) == 1
        for way in ("received", "sent"):
            for kind in ("messages", "control"):
                count = registry.get_sample_value(f"episub_{way}_bytes_total", {"kind": kind})
                assert count is not None
                assert count > len(b"theirs")
        event = {"event": "payloads-received"}
        assert registry.get_sample_value("episub_events_total", event) == 1
        names = {metric.name for metric in registry.collect()}
        assert not [name for name in names if f"`{name}" not in TEXT]
