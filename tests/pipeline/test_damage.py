"""What damaged traces say is believed where something else speaks for it, and they are said to be
damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from episub_router.pb.trace_pb2 import TraceEvent
from tests.pipeline.conftest import speak_to
from tests.pipeline.files import SECOND, START, delimited, node_events, peer, write_star
from tests.pipeline.reports import gathered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episub_router.pipeline.lake import Lake

pytestmark = pytest.mark.spark

NODES, MESSAGES = 4, 60


def flipped_bits(star: Path) -> None:
    rng = random.Random(4)
    for path in star.iterdir():
        data = bytearray(path.read_bytes())
        for _ in range(len(data) // 1000):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


def cut_short(star: Path) -> None:
    path = star / "node-2.pb"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def losses(star: Path, *, flipped: bool) -> None:
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


def late_joiner(star: Path) -> None:
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


DAMAGE: dict[str, Callable[[Path], None]] = {
    "flipped bits": flipped_bits,
    "cut short": cut_short,
    "losses": partial(losses, flipped=False),
    "losses, flipped": partial(losses, flipped=True),
    "late joiner": late_joiner,
    "sound": lambda star: None,
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A run for each kind of damage to a star of four nodes, with sixty messages, a second each;
    answered together, since most of the time goes into planning."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer

    speak_to(spark)
    directory = tmp_path_factory.mktemp("damage")
    lake = Lake(spark, str(directory / "lake"))
    for run, damage in DAMAGE.items():
        write_star(directory / run, NODES, MESSAGES)
        damage(directory / run)
        ingest(spark, lake, [str(directory / run)], run)
    for _ in answer(lake, AnswerParams()):
        pass
    return lake


def told(lake: Lake, run: str) -> tuple[Any, str]:
    """The quality of a run, and the headline of its report."""
    from episub_router.pipeline.report.tables import headline

    (quality,) = lake.read("gold", "quality", [run]).collect()
    return quality, headline(gathered(lake, [run]))


def test_flipped_bits_make_no_peers_and_no_days(lake: Lake) -> None:
    quality, headline = told(lake, "flipped bits")
    assert quality.quarantined > 40
    assert quality.peers == NODES
    assert quality.untraced_peers == 0
    # From the joins to the last message.
    assert quality.end - quality.begin < (MESSAGES + 60) * 10**9
    assert "are damaged" in headline
    # Whatever is lost or late is of a message that was published.
    assert quality.messages <= MESSAGES


def test_a_trace_that_is_cut_short_is_damaged(lake: Lake) -> None:
    quality, headline = told(lake, "cut short")
    assert quality.cut_short == 1
    assert quality.silent_peers == 0
    assert "are damaged" in headline


@pytest.mark.parametrize("run", ["losses", "losses, flipped"])
def test_damage_hides_no_losses(lake: Lake, run: str) -> None:
    quality, headline = told(lake, run)
    assert quality.quarantined >= 1
    assert quality.messages == MESSAGES
    assert "30 deliveries are missing" in headline


def test_a_late_joiner_is_no_flipped_bit(lake: Lake) -> None:
    quality, _ = told(lake, "late joiner")
    assert quality.quarantined >= 1
    assert quality.peers == NODES + 1


def test_a_sound_trace_is_not(lake: Lake) -> None:
    quality, headline = told(lake, "sound")
    assert (quality.cut_short, quality.quarantined) == (0, 0)
    assert "damaged" not in headline
