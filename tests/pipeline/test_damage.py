"""What damaged traces say is believed where something else speaks for it, and they are said to be
damaged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from episub_router.pb.trace_pb2 import TraceEvent
from tests.pipeline.files import SECOND, START, delimited, node_events, peer, write_star

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NODES, MESSAGES = 4, 60


@pytest.fixture
def star(tmp_path: Path) -> Path:
    """Traces of a star of four nodes, with sixty messages, a second each."""
    write_star(tmp_path / "star", NODES, MESSAGES)
    return tmp_path / "star"


def told(spark: SparkSession, traces: Path) -> tuple[Any, str]:
    """The quality of the run, and the headline of its report."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.report.gathering import gather
    from episub_router.pipeline.report.params import ReportParams
    from episub_router.pipeline.report.tables import headline
    from episub_router.pipeline.run import answer

    lake = Lake(spark, str(traces.parent / "lake"))
    ingest(spark, lake, [str(traces)])
    for _ in answer(lake, AnswerParams()):
        pass
    (quality,) = lake.read("gold", "quality").collect()
    return quality, headline(gather(lake, ["star"], [], ReportParams()))


def test_flipped_bits_make_no_peers_and_no_days(spark: SparkSession, star: Path) -> None:
    rng = random.Random(4)
    for path in star.iterdir():
        data = bytearray(path.read_bytes())
        for _ in range(len(data) // 1000):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    quality, headline = told(spark, star)
    assert quality.quarantined > 40
    assert quality.peers == NODES
    assert quality.untraced_peers == 0
    # From the joins to the last message.
    assert quality.end - quality.begin < (MESSAGES + 60) * 10**9
    assert "are damaged" in headline
    # Whatever is lost or late is of a message that was published.
    assert quality.messages <= MESSAGES


def test_a_trace_that_is_cut_short_is_damaged(spark: SparkSession, star: Path) -> None:
    path = star / "node-2.pb"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    quality, headline = told(spark, star)
    assert quality.cut_short == 1
    assert quality.silent_peers == 0
    assert "are damaged" in headline


@pytest.mark.parametrize("flipped", [False, True])
def test_damage_hides_no_losses(spark: SparkSession, star: Path, flipped: bool) -> None:
    """Ten messages come to nobody, and one node's last event is cut off; or a length in the middle
    of its file is wrong."""
    gone = {b"id-%d" % number for number in range(MESSAGES - 10, MESSAGES)}
    for number in range(NODES):
        events = node_events(number, NODES, MESSAGES)
        events = [
            event for event in events
            if event.publishMessage.messageID in gone or (
                not gone & {m.messageID for m in (*event.sendRPC.meta.messages,
                                                  *event.recvRPC.meta.messages)}
                and event.duplicateMessage.messageID not in gone
                and (number == 0 or event.deliverMessage.messageID not in gone)
            )
        ]  # fmt: skip
        data = bytearray(delimited(events))
        if number == 3 and flipped:
            data[sum(map(len, (delimited([event]) for event in events[:99])))] ^= 1
        (star / f"node-{number}.pb").write_bytes(data if number != 3 else data[:-5])
    quality, headline = told(spark, star)
    assert quality.quarantined >= 1
    assert quality.messages == MESSAGES
    assert "30 deliveries are missing" in headline


def test_a_late_joiner_is_no_flipped_bit(spark: SparkSession, star: Path) -> None:
    """It has three messages, where others have hundreds of events."""
    events = [
        event for event in node_events(9, NODES, MESSAGES)
        if event.HasField("join")
        or event.deliverMessage.messageID in (b"id-57", b"id-58", b"id-59")
    ]  # fmt: skip
    events[0].timestamp += 60 * SECOND
    (star / "node-9.pb").write_bytes(delimited(events))
    for number in range(NODES):
        made = node_events(number, NODES, MESSAGES) * 3
        if number == 0:
            made.append(TraceEvent(type=TraceEvent.SEND_RPC, peerID=peer(0), timestamp=START))
            made[-1].sendRPC.sendTo = peer(9)
        data = bytearray(delimited(made))
        data[sum(map(len, (delimited([event]) for event in made[:99])))] ^= number == 3
        (star / f"node-{number}.pb").write_bytes(data)
    quality, _ = told(spark, star)
    assert quality.quarantined >= 1
    assert quality.peers == NODES + 1


def test_a_sound_trace_is_not(spark: SparkSession, star: Path) -> None:
    quality, headline = told(spark, star)
    assert (quality.cut_short, quality.quarantined) == (0, 0)
    assert "damaged" not in headline
