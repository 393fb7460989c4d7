"""Prometheus metrics of a node, made from its counters when they are asked for.

Names are those of the gossipsub metrics draft (libp2p/specs, pull request 695) where the meaning is
the same, and begin with `episub_` elsewhere. docs/metrics-node.md has them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from libp2p.pubsub.pubsub import Pubsub
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from episub_router.net.counters import Reason
from episub_router.net.sight.warnings import ADVICE
from episub_router.pubsub import PubsubDrop, ResilientPubsub
from episub_router.router import EpisubRouter

_MAX_TOPICS = 256
"""Topics with series of their own; ours: peers may name any number, and each costs a series."""

_FROM_THE_START = {reason.value: 0 for reason in (*ADVICE, Reason.ERROR)}
"""What is alerted on: Prometheus sees no increase in a series that begins with its first count."""


class NodeCollector(Collector):
    """The metrics of one node; register it with a `prometheus_client` registry.

        REGISTRY.register(NodeCollector(pubsub, router))

    Topics that this node isn't in have no series of their own.
    """

    def __init__(self, pubsub: Pubsub, router: EpisubRouter) -> None:
        self._pubsub = pubsub
        self._router = router

    def collect(self) -> Iterator[Metric]:
        topics = list(self._pubsub.topic_ids)[:_MAX_TOPICS]
        mesh = self._router.mesh
        yield _gauge(
            "gossipsub_peers_total",
            "Known peers in each topic.",
            {topic: len(self._pubsub.peer_topics.get(topic, ())) for topic in topics},
        )
        yield _gauge(
            "gossipsub_mesh_peers_total",
            "Neighbours in each topic: Episub's active view and gossipsub's mesh.",
            {topic: len(mesh.get(topic, ())) for topic in topics},
        )
        hops = {topic: self._router.deliveries(topic) for topic in topics}
        yield _counter(
            "gossipsub_message_delivered",
            "Messages accepted for local subscribers, own ones included.",
            "topic",
            {topic: sum(counts.values()) for topic, counts in hops.items()},
        )
        yield _counter(
            "gossipsub_message_published",
            "Messages published by this node.",
            "topic",
            {topic: counts.get(0, 0) for topic, counts in hops.items()},
        )
        yield _counter(
            "episub_events",
            "What the router counts, by its name in docs/metrics-node.md.",
            "event",
            {**_FROM_THE_START, **self._router.counters()},
        )
        if isinstance(self._pubsub, ResilientPubsub):
            yield _counter(
                "episub_pubsub_dropped",
                "What ResilientPubsub dropped, by reason.",
                "reason",
                {
                    **dict.fromkeys((reason.value for reason in PubsubDrop), 0),
                    **{reason.value: count for reason, count in list(self._pubsub.drops.items())},
                },
            )
            yield _counter(
                "episub_subscription_lagged",
                "Messages that a slow subscription of this node missed.",
                "topic",
                dict(self._pubsub.lagging),
            )


def _gauge(name: str, text: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["topic"])
    for topic, value in values.items():
        family.add_metric([topic], value)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
