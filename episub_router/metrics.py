"""Prometheus metrics of nodes, made from their counters when they are asked for.

Names are those of the gossipsub metrics draft (libp2p/specs, pull request 695) where the meaning is
the same, but a gauge's ends in no `_total`, and begin with `episub_` elsewhere.
docs/metrics-node.md has them all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import accumulate

import trio
from libp2p.pubsub.pubsub import Pubsub
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from episub_router.net.counters import ADVICE, Reason
from episub_router.pubsub import PubsubDrop, ResilientPubsub
from episub_router.pubsub.traffic import BUCKETS, KINDS
from episub_router.router import EpisubRouter
from episub_router.util.checks import check_type

logger = logging.getLogger(__name__)

_MAX_TOPICS = 256
"""Topics with series of their own; chosen: peers may name any number, and each costs a series."""

_MAX_PORT = 65_535

_FROM_THE_START = {reason.value: 0 for reason in (*ADVICE, Reason.ERROR)}
"""What is alerted on: Prometheus sees no increase in a series that begins with its first count."""

_LABEL = re.compile(r"(?!__|(?:topic|event|kind|reason|le)$)[a-zA-Z_]\w*", re.ASCII)
"""A name that Prometheus takes, and that no metric has a label of."""


class NodeCollector(Collector):
    """The metrics of one node, or of several; register it with a `prometheus_client` registry.

        REGISTRY.register(NodeCollector(pubsub, router))

    `labels` tell several nodes of one process apart, and have the same names for each node:
    `NodeCollector(pubsub, router, {"node": "a"}).add(other_pubsub, other_router, {"node": "b"})`.
    Topics that a node isn't in have no series.
    """

    def __init__(
        self, pubsub: Pubsub, router: EpisubRouter, labels: Mapping[str, str] | None = None
    ) -> None:
        check_type("labels", labels, Mapping, optional=True)
        self._names = tuple(labels or ())
        self._nodes: dict[tuple[str, ...], tuple[Pubsub, EpisubRouter]] = {}
        self.add(pubsub, router, labels)

    def add(
        self, pubsub: Pubsub, router: EpisubRouter, labels: Mapping[str, str] | None = None
    ) -> NodeCollector:
        """Collect the metrics of another node, too. Raises ValueError for labels with other names
        than the first node's, with the values of another node, or named like a metric's own."""
        check_type("pubsub", pubsub, Pubsub)
        check_type("router", router, EpisubRouter)
        labels = labels or {}
        if set(labels) != set(self._names):
            raise ValueError(f"labels must be {self._names}, as for the first node: {labels}")
        for name, value in labels.items():
            check_type(f"the label {name}", value, str)
            if not _LABEL.fullmatch(name):
                raise ValueError(f"a label can't be called {name!r}")
        values = tuple(labels[name] for name in self._names)
        if values in self._nodes:
            raise ValueError(f"another node has these labels, which must tell them apart: {labels}")
        self._nodes[values] = (pubsub, router)
        return self

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        delays = HistogramMetricFamily(
            "episub_delivery_delay_seconds",
            "From a message's arrival at this node to its acceptance: validation, and the wait.",
            labels=self._names,
        )
        for own, (pubsub, router) in self._nodes.items():
            for family, label, values in _families(pubsub, router):
                metric = families.setdefault(family.name, family)
                for key, value in values.items():
                    sample = family.name + ("_total" if family.type == "counter" else "")
                    names = {**dict(zip(self._names, own, strict=True)), label: key}
                    metric.add_sample(sample, names, value)
            if isinstance(pubsub, ResilientPubsub):
                counts = list(accumulate(pubsub.traffic.delays))
                bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
                buckets = list(zip(bounds, counts, strict=True))
                delays.add_metric(own, buckets, pubsub.traffic.delay)
        yield from families.values()
        yield delays


@asynccontextmanager
async def served(port: int, pubsub: Pubsub, router: EpisubRouter) -> AsyncIterator[None]:
    """Serve the metrics of a node at http://127.0.0.1:port/metrics, where 0 is any port. Raises
    OSError for an occupied one, ValueError for what is none."""
    if not 0 <= port <= _MAX_PORT:
        raise ValueError(f"metrics must be a port, from 0 to {_MAX_PORT}, not {port}")
    registry = CollectorRegistry()
    registry.register(NodeCollector(pubsub, router))
    try:
        server, _ = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise OSError(f"can't serve metrics on port {port}: {error.strerror or error}") from error
    logger.info("metrics at http://127.0.0.1:%d/metrics", server.server_port)
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            # It waits for the server's thread, for up to half a second.
            await trio.to_thread.run_sync(server.shutdown)
        server.server_close()


def _families(
    pubsub: Pubsub, router: EpisubRouter
) -> Iterator[tuple[Metric, str, Mapping[str, int]]]:
    """Each metric, the label that its values differ in, and these."""
    topics = list(pubsub.topic_ids)[:_MAX_TOPICS]
    mesh = router.mesh
    hops = {topic: router.deliveries(topic) for topic in topics}
    yield (
        GaugeMetricFamily("gossipsub_peers", "Known peers in each topic."),
        "topic",
        {topic: len(pubsub.peer_topics.get(topic, ())) for topic in topics},
    )
    yield (
        GaugeMetricFamily(
            "gossipsub_mesh_peers",
            "Neighbours in each topic: Episub's active view and gossipsub's mesh.",
        ),
        "topic",
        {topic: len(mesh.get(topic, ())) for topic in topics},
    )
    yield (
        CounterMetricFamily(
            "gossipsub_message_delivered",
            "Messages accepted for local subscribers, own ones included.",
        ),
        "topic",
        {topic: sum(counts.values()) for topic, counts in hops.items()},
    )
    yield (
        CounterMetricFamily("gossipsub_message_published", "Messages published by this node."),
        "topic",
        {topic: counts.get(0, 0) for topic, counts in hops.items()},
    )
    yield (
        CounterMetricFamily("episub_events", "What the router counts, by its name."),
        "event",
        {**_FROM_THE_START, **router.counters()},
    )
    if isinstance(pubsub, ResilientPubsub):
        for way in ("received", "sent"):
            counts = getattr(pubsub.traffic, way)
            yield (
                CounterMetricFamily(f"episub_{way}_bytes", f"Bytes of frames {way}."),
                "kind",
                {kind: counts[kind] for kind in KINDS},
            )
        yield (
            CounterMetricFamily("episub_pubsub_dropped", "What ResilientPubsub dropped."),
            "reason",
            {
                **dict.fromkeys((reason.value for reason in PubsubDrop), 0),
                **{reason.value: count for reason, count in list(pubsub.drops.items())},
            },
        )
        yield (
            CounterMetricFamily(
                "episub_subscription_lagged",
                "Messages that a slow subscription of this node missed.",
            ),
            "topic",
            dict(pubsub.lagging),
        )
