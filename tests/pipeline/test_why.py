"""The way of one message to one peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from episub_router.cli.why import lines
from tests.pipeline.files import delimited, node_events, peer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episub_router.pipeline.lake import Lake

pytestmark = pytest.mark.spark

MS = 1_000_000


@pytest.fixture(scope="module")
def star(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The facts of a star; node 3's trace has lost its last message."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import SILVER, Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import Tables

    directory = tmp_path_factory.mktemp("why")
    traces, lake = directory / "star", Lake(spark, str(directory / "lake"))
    traces.mkdir()
    for node in range(4):
        events = node_events(node, messages=5)
        if node == 3:
            events = [event for event in events if event.deliverMessage.messageID != b"id-4"]
            events = [
                event
                for event in events
                if all(m.messageID != b"id-4" for m in event.recvRPC.meta.messages)
            ]
        (traces / f"{node}.pb").write_bytes(delimited(events))
    ingest(spark, lake, [str(traces)])
    tables = Tables({"records": lake.records()}, AnswerParams())
    facts = (
        "clocks",
        "spans",
        "publishes",
        "deliveries",
        "duplicates",
        "changes",
        "links",
        "activity",
        "subscriptions",
    )
    for name in facts:
        tables.replace(name, lake.write(SILVER, name, tables.make(name), ["star"]))
    return lake


def names() -> list[str]:
    from episub_router.pipeline.reading.names import peer_name

    return [peer_name(peer(number)) for number in range(4)]


def test_a_delivery(star: Lake) -> None:
    from episub_router.pipeline.why import way

    hub, spoke, *_ = names()
    found = way(star, "star", "id-2", spoke)
    assert (found.source, found.latency, found.why_not) == (hub, 20 * MS, "")
    (step,) = found.steps
    assert (step.sender, step.receiver, step.had) == (hub, spoke, 0)
    assert (step.sent, step.waited) == (1 * MS, 1 * MS)
    assert (step.received, step.delivered, step.under_way) == (19 * MS, 20 * MS, 19 * MS)
    # 18 ms there, 20 ms back: neither clock can be further off than half of that.
    assert step.uncertainty == found.uncertainty == 19 * MS
    text = "\n".join(lines(found))
    assert "waited 1.000 ms" in text
    assert "latency 20.000 ms ± 19.000 ms" in text


def test_copies_in_vain_and_lost_ones(star: Lake) -> None:
    from episub_router.pipeline.why import way

    hub, *spokes = names()
    found = way(star, "star", "id-4", hub)
    assert (found.steps, found.latency, found.why_not) == ((), 0, "")
    assert [(copy.sender, copy.fate) for copy in found.copies] == [
        (spoke, "duplicate") for spoke in sorted(spokes)
    ]
    missed = way(star, "star", "id-4", spokes[2][-12:])
    assert missed.peer == spokes[2]
    assert missed.latency is None
    assert [(copy.sender, copy.fate) for copy in missed.copies] == [(hub, "lost")]
    assert "no trace has the message arriving" in missed.why_not
    assert "lost copy" in "\n".join(lines(missed))


def test_what_is_not_there_is_named(star: Lake) -> None:
    from episub_router.pipeline.lake import LakeError
    from episub_router.pipeline.why import way

    with pytest.raises(LakeError, match="no message id-9 in run star"):
        way(star, "star", "id-9", names()[1])
    with pytest.raises(LakeError, match="no peers of the run are called nobody"):
        way(star, "star", "id-1", "nobody")
