"""One cause for each late or lost pair: of networks made by hand, whose faults are known, and of
simulated ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.handmade import BACK, BEGIN, END, GONE, HEALED, PEERS
from tests.pipeline.reports import gathered
from tests.pipeline.traces import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Swept

pytest.importorskip("pyspark")

from episub_router.pipeline.answers.causes import judge, rest
from episub_router.pipeline.facts.evidence import NEVER
from episub_router.pipeline.params import SECOND, AnswerParams

pd = pytest.importorskip("pandas")

EPOCH = 1_700_000_000 * SECOND
"""Times since 1970 have more digits than a double."""


def ns(seconds: float) -> int:
    return EPOCH + round(seconds * 1000) * (SECOND // 1000)


@dataclass
class Network:
    """Eight peers that hear each other every second for 60 s, and a message of `a` each second,
    which each peer sends on to the next one."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    silent: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Peers that do nothing for some time."""
    side: str = ""
    """Peers that are cut off from 20 to 30 s."""

    def add(self, kind: str, **columns: Any) -> None:
        times = dict.fromkeys(("first", "last", "since"), NEVER)
        names: dict[str, Any] = dict.fromkeys(("message", "a", "b"))
        self.rows.append({"run": "r", "kind": kind, "topic": "t", **names, **times, **columns})

    def here(self, peer: str, second: float) -> bool:
        begin, end = self.silent.get(peer, (99, 99))
        return not begin <= second < end

    def talk(self) -> None:
        """What they hear and trace, if they are there."""
        for second in range(60):
            for peer in "abcdefgh":
                if not self.here(peer, second + 0.5):
                    continue
                self.add("pulse", a=peer, first=ns(second), last=ns(second + 0.9), since=1)
                for other in "abcdefgh":
                    apart = 20 <= second < 30 and (peer in self.side) != (other in self.side)
                    if other != peer and self.here(other, second + 0.5) and not apart:
                        self.add("contact", a=other, b=peer, first=ns(second + 0.1),
                                 last=ns(second + 0.8), since=1)  # fmt: skip

    def trouble(
        self, second: float, peer: str, came: float | None = None, source: str = "a",
        since: float = 0, **delivered: tuple[str, float],
    ) -> None:  # fmt: skip
        """The message of this time was late to `peer`, or lost; `delivered` has sender and time of
        other peers."""
        message = f"m{second}"
        last = NEVER if came is None else ns(came)
        self.add("trouble", message=message, a=source, b=peer, first=ns(second), last=last,
                 since=ns(since))  # fmt: skip
        for other, (sender, time) in delivered.items():
            self.add("delivery", message=message, a=sender, b=other, first=ns(time))

    def judged(self) -> tuple[list[Any], list[Any]]:
        """Pairs with their causes, and faults."""
        made = judge(pd.DataFrame(self.rows), AnswerParams())
        rows = [row for _, row in made.iterrows()]
        return ([row for row in rows if row["message"] is not None],
                [row for row in rows if row["message"] is None])  # fmt: skip


def test_a_cut_has_two_sides_from_its_last_receipt_to_the_next_one() -> None:
    network = Network(side="gh")
    network.talk()
    for second in range(20, 30):
        network.trouble(second + 0.2, "g", 31)
        network.trouble(second + 0.2, "h")
    # The other way, too; and one that was on its way when the cut began.
    network.trouble(24.5, "b", 31, source="g")
    network.trouble(19.95, "h", 30.5)
    pairs, (cut,) = network.judged()
    assert {pair["cause"] for pair in pairs} == {"cut"}
    assert (cut["cause"], cut["peers"], cut["count"], cut["others"]) == ("cut", ["g", "h"], 2, 6)
    assert (cut["begin"], cut["end"]) == (ns(19.8), ns(30.1))
    assert (cut["late"], cut["lost"]) == (12, 10)


def test_what_is_lost_after_healing_is_the_routers_fault() -> None:
    network = Network(side="gh")
    network.talk()
    for second in range(20, 30):
        network.trouble(second + 0.2, "h", 31)
    network.trouble(31.2, "h", None, f=("a", 31.3))
    network.trouble(45.2, "h", None, f=("a", 45.3))
    network.add("sends")
    pairs, (cut,) = network.judged()
    assert Counter(pair["cause"] for pair in pairs) == {"cut": 10, "overlay": 2}
    # In time again when what followed at once was over, and not only after the last of all.
    assert cut["calm"] == ns(31.2)


def test_a_stop_is_no_cut_and_no_restart() -> None:
    network = Network(silent={"d": (20, 30)})
    network.talk()
    for second in range(18, 30):
        network.trouble(second + 0.2, "d", 30.5)
    pairs, (stop,) = network.judged()
    assert {pair["cause"] for pair in pairs} == {"stopped"}
    assert (stop["peers"], stop["begin"], stop["end"]) == (["d"], ns(19.9), ns(30))


def test_what_a_peer_catches_up_with_is_no_sign_of_life() -> None:
    """Two stop together, and one that is busy receives for seconds what they had sent."""
    network = Network(silent={"c": (20, 30), "d": (20, 30)})
    network.talk()
    for peer in "cd":
        network.add("contact", a=peer, b="h", first=ns(19.1), last=ns(22.6), since=3)
        for second in range(20, 28):
            network.trouble(second + 0.2, peer, 30.5)
    pairs, faults = network.judged()
    assert {pair["cause"] for pair in pairs} == {"stopped"}
    assert [fault["peers"] for fault in faults] == [["c"], ["d"]]


def test_of_two_faults_it_is_the_one_that_took_longer() -> None:
    """A peer is stopped near the end of a cut."""
    network = Network(side="gh", silent={"h": (29, 36)})
    network.talk()
    for second in (22.2, 24.2, 26.2):
        network.trouble(second, "g", 31)
        network.trouble(second, "h", 36.5)
    network.trouble(28.6, "h", 36.5)
    pairs, _ = network.judged()
    causes = {(pair["message"], pair["peer"]): pair["cause"] for pair in pairs}
    assert (causes["m26.2", "h"], causes["m28.6", "h"]) == ("cut", "stopped")


def test_who_is_stopped_all_the_time_is_on_no_side_of_a_cut() -> None:
    network = Network(side="gh", silent={"d": (15, 35)})
    network.talk()
    for second in range(20, 26):
        network.trouble(second + 0.2, "g", 31)
        network.trouble(second + 0.2, "d", 35.5, source="h")
    pairs, _ = network.judged()
    causes = {(pair["peer"], pair["cause"]) for pair in pairs}
    assert causes == {("g", "cut"), ("d", "stopped")}


@pytest.mark.parametrize("silent", [(21, 26), (26, 31)])
def test_one_that_is_cut_off_may_have_nothing_to_trace(silent: tuple[int, int]) -> None:
    """Till others come back to it, too."""
    network = Network(side="fgh", silent={"h": silent})
    network.talk()
    for second in (20.2, 22.2, 26.2, 28.2):
        for peer in "fgh":
            network.trouble(second, peer, 31.5)
    pairs, _ = network.judged()
    assert {pair["cause"] for pair in pairs} == {"cut"}


def test_a_restart_is_known_from_the_header() -> None:
    network = Network(silent={"d": (20, 30)})
    network.talk()
    for second in range(20, 30):
        network.trouble(second + 0.2, "d", 31)
    network.add("start", a="d", first=ns(0))
    network.add("start", a="d", first=ns(29.5))
    pairs, (down,) = network.judged()
    assert {pair["cause"] for pair in pairs} == {"down"}
    # Down until it heard of others again.
    assert (down["cause"], down["begin"], down["end"]) == ("down", ns(19.9), ns(30.1))


def test_a_killed_peer_that_does_not_come_back_and_a_truncated_trace() -> None:
    for heard, cause in ((False, "down"), (True, "unknown")):
        network = Network(silent={"d": (40, 99)})
        network.talk()
        for second in range(45, 55):
            network.trouble(second + 0.2, "d")
            if heard:
                network.add("contact", a="d", b="a", first=ns(second), last=ns(second + 0.5),
                            since=1)  # fmt: skip
        pairs, faults = network.judged()
        assert {pair["cause"] for pair in pairs} == {cause}
        assert len(faults) == (not heard)
        if faults:
            assert faults[0]["end"] is pd.NA


@pytest.mark.parametrize(("seconds", "others"), [(4, "abcefgh"), (10, "a")])
def test_an_idle_peer_is_neither_stopped_nor_cut_off(seconds: int, others: str) -> None:
    network = Network()
    network.talk()
    quiet = [
        row
        for row in network.rows
        if "d" not in (row["a"], row["b"])
        or (row["first"] // SECOND % seconds == 0 and {row["a"], row["b"]} <= {"d", None, *others})
    ]
    network.rows = quiet
    network.trouble(22.2, "d", None, b=("a", 22.3))
    pairs, faults = network.judged()
    assert not faults
    assert pairs[0]["cause"] in ("overlay", "unknown")


def test_a_late_joiner() -> None:
    network = Network()
    network.talk()
    network.trouble(20.2, "d", 26, since=25.5)
    pairs, faults = network.judged()
    assert (pairs[0]["cause"], faults) == ("joining", [])


@pytest.mark.parametrize(
    ("sent", "asked", "cause", "link"),
    [
        (20.4, None, "slow", ("b", "c")),  # long under way
        (24.0, None, "slow", ("b", "c")),  # long in the queue
        (24.2, 20.5, "slow", ("b", "c")),  # long between asking and getting
        (24.2, 24.1, "overlay", ("b", "c")),  # nobody pushed it
        (None, None, "unknown", ("b", "c")),
    ],
)
def test_the_link_on_which_it_became_late_is_named(
    sent: float | None, asked: float | None, cause: str, link: tuple[str, str]
) -> None:
    network = Network()
    network.talk()
    way: dict[str, Any] = {"b": ("a", 20.3), "c": ("b", 24.5), "d": ("c", 24.6)}
    network.trouble(20.2, "d", 24.6, **way)
    if sent is not None:
        network.add("sent", message="m20.2", a="b", b="c", first=ns(sent))
    if asked is not None:
        network.add("asked", message="m20.2", a="b", b="c", first=ns(asked))
    (pair,), faults = network.judged()
    assert (pair["cause"], (pair["sender"], pair["receiver"]), faults) == (cause, link, [])


def test_of_a_slow_link_it_is_said_how_long_the_senders_stream_took() -> None:
    network = Network()
    network.talk()
    network.trouble(20.2, "c", 24.5, b=("a", 20.3), c=("b", 24.5))
    network.add("sent", message="m20.2", a="b", b="c", first=ns(20.4))
    network.add("written", message="m20.2", a="b", b="c", first=ns(24.3))
    (pair,), _ = network.judged()
    assert (pair["cause"], pair["sender"], pair["receiver"]) == ("slow", "b", "c")
    assert pair["detail"] == "4.10 s under way, 3.90 s of it until its sender had written it"


def test_what_is_announced_over_a_slow_link_is_late_for_that() -> None:
    """It was asked for late, and what was sent to that peer meanwhile was long under way."""
    network = Network()
    network.talk()
    network.trouble(20.2, "c", 24.5, b=("a", 20.3), c=("b", 24.5))
    network.add("sent", message="m20.2", a="b", b="c", first=ns(24.2))
    network.add("asked", message="m20.2", a="b", b="c", first=ns(24.1))
    network.trouble(21.2, "c", 24.4, f=("a", 21.3), c=("f", 24.4))
    network.add("sent", message="m21.2", a="f", b="c", first=ns(21.4))
    pairs, _ = network.judged()
    assert [pair["cause"] for pair in pairs] == ["slow", "slow"]
    assert pairs[0]["detail"] == "asked for late, while another one was 3.00 s under way"


def test_what_a_stopped_peer_on_the_way_held_up_is_that_stops() -> None:
    network = Network(silent={"b": (21, 26)})
    network.talk()
    way: dict[str, Any] = {"b": ("a", 20.3), "c": ("b", 26.5), "d": ("c", 26.6)}
    network.trouble(20.2, "d", 26.6, **way)
    network.trouble(22.2, "b", 26.6)
    pairs, (stop,) = network.judged()
    assert [pair["cause"] for pair in pairs] == ["stopped", "stopped"]
    assert (stop["peers"], stop["late"]) == (["b"], 2)


def test_a_slow_link_that_was_slow_before_does_not_delay_the_calm() -> None:
    network = Network(side="gh")
    network.talk()
    for second in range(20, 30):
        network.trouble(second + 0.2, "h", 31)
    for second in range(4, 59, 8):
        network.trouble(
            second + 0.5, "c", second + 4.6, b=("a", second + 0.6), c=("b", second + 4.6)
        )
        network.add("sent", message=f"m{second + 0.5}", a="b", b="c", first=ns(second + 0.7))
    # What is lost on the other side, to somebody of that side, is no part of it either.
    network.trouble(31.2, "d", None, f=("a", 31.3))
    _, (cut,) = network.judged()
    assert (cut["cause"], cut["end"], cut["calm"]) == ("cut", ns(30.1), ns(30.1))


def test_an_untraced_peer_and_one_whose_tracer_dropped_events() -> None:
    network = Network()
    network.talk()
    network.trouble(20.2, "x", None, b=("a", 20.3))
    network.trouble(20.2, "d")
    network.add("dropped", a="d")
    pairs, _ = network.judged()
    said = {pair["peer"]: (pair["cause"], pair["detail"]) for pair in pairs}
    assert said["x"] == ("unknown", "it has no trace of its own")
    assert said["d"] == ("unknown", "its tracer dropped events")


@pytest.mark.spark
@pytest.mark.parametrize(("lasts", "late"), [(3, 4), (4, 0)])
def test_what_stalls_for_a_moment_counts(spark: SparkSession, lasts: int, late: int) -> None:
    """In the p99 without faults: only a peer that is slow for longer than the deadline is one."""
    published = {f"m{second}": second * SECOND for second in range(60)}
    slow = [20, 20 + lasts]
    rows = [
        ("r", "t", message, peer, at, False, True, True,
         4 * SECOND if at // SECOND in slow else SECOND // 10)
        for message, at in published.items() for peer in "bc"
    ]  # fmt: skip
    arrivals = spark.createDataFrame(
        rows, "run string, topic string, message string, peer string, published long, "
        "origin boolean, live boolean, delivered boolean, latency long",
    )  # fmt: skip
    # Over other links, with one end in common.
    causes = spark.createDataFrame(
        [("r", "slow", at * SECOND, 4 * SECOND, "a", peer)
         for at, peer in zip(slow, "bc", strict=True)],
        "run string, cause string, published long, latency long, sender string, receiver string",
    )  # fmt: skip
    faults = spark.createDataFrame([], "run string, begin long, calm long")
    (found,) = rest(arrivals, faults, causes, AnswerParams()).collect()
    # From the deadline before to the last arrival, and patience.
    assert found.messages == (60 if late else 60 - (3 + lasts + 4 + 10) - 1)
    assert found.late == late
    assert found.latency_p99 == (4 * SECOND if late else SECOND // 10)


@pytest.mark.spark
def test_of_too_many_a_sample_is_judged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from episub_router.pipeline.answers.causes import causes, judged
    from episub_router.pipeline.facts import evidence

    monkeypatch.setattr(evidence, "MOST", 50)
    said = "run string, topic string, message string, "
    rows = [("r", "t", f"m{number}", "a", number * SECOND) for number in range(100)]
    arrivals = spark.createDataFrame(
        [(*row[:3], "b", row[4], False, True, False, None) for row in rows],
        said + "peer string, published long, origin boolean, live boolean, delivered boolean, "
        "latency long",
    )  # fmt: skip
    publishes = spark.createDataFrame(rows, said + "source string, time long")
    subscriptions = spark.createDataFrame(
        [("r", "t", "b", 0, None, 0)],
        "run string, topic string, peer string, since long, until long, linked long",
    )
    params = AnswerParams()
    found = evidence.troubles(arrivals, publishes, subscriptions, publishes, params)
    chosen = {row.message for row in found.where("judged").collect()}
    assert 10 < len(chosen) < 40
    kinds = "kind string, topic string, message string, a string, b string, first long, last long"
    rows = [("r", "trouble", "t", name, "a", "b", 0, NEVER, 0) for name in sorted(chosen)]
    known = spark.createDataFrame(rows, f"run string, {kinds}, since long")
    table = causes(judged(found, known, params)).collect()
    assert len(table) == len({row.message for row in table}) == 100
    assert {row.message for row in table if (row.detail or "").startswith("one of too many")} == {
        f"m{number}" for number in range(100)
    } - chosen


# From whole traces.

DEADLINE = 3
LATE = END - BEGIN - DEADLINE + 1
"""Messages of the time in which a peer is apart that come too late, or not at all."""


@pytest.mark.spark
def test_two_halves(swept: Swept) -> None:
    (cut,) = swept.table("faults", "parted")
    assert (cut.cause, cut.peers, cut["count"], cut.others) == ("cut", PEERS[4:], 4, 4)
    # They hear each other every two seconds.
    assert (BEGIN - 2) * SECOND <= cut.begin < BEGIN * SECOND
    assert END * SECOND <= cut.end < (END + 2) * SECOND
    assert (cut.late, cut.lost) == (4 * (LATE - 1), 4)


@pytest.mark.spark
def test_of_go_s_traces_it_is_known_how_long_a_stream_took(swept: Swept) -> None:
    (pair,) = swept.table("causes", "slow link")
    assert (pair.message, pair.sender, pair.receiver, pair.cause) == ("slow", "p0", "p1", "slow")
    assert pair.detail == "4.50 s under way, 4.20 s of it until its sender had written it"


@pytest.mark.spark
def test_a_stopped_peer(swept: Swept) -> None:
    (stop,) = swept.table("faults", "stopped")
    assert (stop.cause, stop.peers, stop.others) == ("stopped", ["p7"], 7)
    assert (BEGIN - 2) * SECOND <= stop.begin < BEGIN * SECOND
    assert END * SECOND <= stop.end < (END + 1) * SECOND
    assert (stop.late, stop.lost) == (LATE - 1, 1)


@pytest.mark.spark
def test_the_rest_is_judged_without_it(swept: Swept) -> None:
    assert not swept.table("faults", "whole")
    for run in ("parted", "stopped", "whole"):
        (rest,) = swept.table("rest", run)
        assert (rest.late, rest.live - rest.delivered) == (0, 0)
        assert rest.latency_p50 == rest.latency_p99 == SECOND // 10
        assert rest.messages == (
            68 if run == "whole" else 68 - (END - BEGIN) - DEADLINE - 1 - PATIENCE
        )


@pytest.mark.spark
def test_a_process_that_is_killed_between_two_messages(swept: Swept) -> None:
    """The messages are further apart than anybody waits for one."""
    (down,) = swept.table("faults", "sparse kill")
    assert (down.cause, down.peers, down.lost) == ("down", ["p7"], 2)
    assert (GONE - 1) * SECOND <= down.begin <= GONE * SECOND
    assert BACK * SECOND <= down.end <= down.calm <= (BACK + 1) * SECOND
    assert {row.cause for row in swept.table("causes", "sparse kill")} == {"down"}
    # Both processes, from their headers alone.
    starts = swept.table("starts", "sparse kill", "time", layer="silver")
    assert [row.time for row in starts if row.peer == "p7"] == [0, BACK * SECOND]


@pytest.mark.spark
def test_a_cut_heals_between_two_messages(swept: Swept) -> None:
    (cut,) = swept.table("faults", "sparse cut")
    assert (cut.cause, cut.peers, cut.late) == ("cut", PEERS[4:], 4)
    assert (GONE - 1) * SECOND <= cut.begin <= GONE * SECOND
    assert HEALED * SECOND <= cut.end <= cut.calm <= (HEALED + 1) * SECOND
    (rest,) = swept.table("rest", "sparse cut")
    # What was published before, at 30, 60 and 90 s, and after.
    assert (rest.messages, rest.late) == (4, 0)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("run", "ending", "nodes", "begin", "end"),
    [("parted", "cut", 4, BEGIN, END), ("stopped", "stopped", 1, BEGIN, END),
     ("sparse cut", "cut", 4, GONE, HEALED), ("sparse kill", "down", 1, GONE, BACK)],
)  # fmt: skip
def test_what_a_fault_took_to_mend(
    swept: Swept, run: str, ending: str, nodes: int, begin: int, end: int
) -> None:
    (row,) = swept.table("recovery", run)
    assert (row.ending, row.nodes) == (ending, nodes)
    # They hear each other every two seconds at least.
    assert begin - 2 <= row.time / SECOND <= begin
    assert end <= row.time / SECOND + row.repaired_after <= end + 2


@pytest.mark.spark
def test_a_killed_peers_trace_is_not_cut_short(swept: Swept) -> None:
    """Others send to it until the end, and nobody gets anything of it."""
    (quality,) = swept.table("quality", "killed")
    assert (quality.cut_short, quality.silent_peers) == (0, 1)
    assert not swept.table("causes", "killed")


@pytest.mark.spark
def test_a_full_queue_is_no_fault_of_the_overlay(swept: Swept) -> None:
    (pair,) = swept.table("causes", "full queue")
    assert (pair.message, pair.cause, pair.sender, pair.receiver, pair.detail) == (
        "full", "slow", "p0", "p1", "the sender's queue was full"
    )  # fmt: skip


@pytest.mark.spark
def test_tables_and_page_and_why_agree(swept: Swept) -> None:
    """On what is missing and what was late, and the causes of that."""
    from episub_router.pipeline.why import way

    for run in ("parted", "stopped", "sparse kill", "sparse cut", "full queue", "slow link"):
        causes = swept.table("causes", run)
        pairs = Counter((row.cause, row.latency is None) for row in causes)
        missing = {row.reason: row["count"] for row in swept.table("missing", run)
                   if row.window is None}  # fmt: skip
        assert missing == {cause: count for (cause, lost), count in pairs.items() if lost}
        (spread,) = (row for row in swept.table("spread", run) if row.window is None)
        assert spread.live - spread.delivered == sum(missing.values())
        of_faults = Counter[tuple[str, bool]]()
        for fault in swept.table("faults", run):
            of_faults += Counter(
                {(fault.cause, True): fault.lost, (fault.cause, False): fault.late}
            )
        assert of_faults == Counter({key: n for key, n in pairs.items() if key[0] != "slow"})
        (rest,) = swept.table("rest", run)
        assert rest.live - rest.delivered == missing.get("slow", 0)
        (topic,) = gathered(swept.lake, [run]).topics
        assert (topic.missing, topic.figures["late"]) == (missing, len(causes))
        assert topic.figures["missing"] == sum(missing.values())
        assert topic.causes == {
            cause: (pairs[cause, False], pairs[cause, True]) for cause, _ in pairs
        }
        for row in causes[:3]:
            found = way(swept.lake, run, row.message, row.peer)
            assert found.cause is not None
            assert (found.cause["name"], found.cause["detail"]) == (row.cause, row.detail)


@pytest.mark.spark
def test_a_partition_of_simulated_nodes_is_one_cut(swept: Swept) -> None:
    (entry,) = (entry for _, entry in swept.done if entry.run.startswith("parted-"))
    (cut,) = swept.table("faults", entry.run)
    (wanted,) = swept.summaries[entry.run]["faults"]
    assert (cut.cause, cut["count"]) == ("cut", wanted["nodes"])
    assert abs(cut.begin / SECOND - wanted["at"]) < 1
    assert abs(cut.end / SECOND - wanted["at"] - 20) < 1
    causes = Counter(row.cause for row in swept.table("causes", entry.run))
    assert causes["cut"] > 0.95 * causes.total()


@pytest.mark.spark
def test_hostile_nodes_are_not_counted(swept: Swept) -> None:
    """As the simulator does: what honest nodes got, and nothing of the others."""
    (entry,) = (entry for _, entry in swept.done if entry.run.startswith("hostile-"))
    rows = sorted(swept.table("messages", entry.run), key=lambda row: row["index"])
    assert [row.reliability for row in rows] == swept.summaries[entry.run]["messages"][
        "reliability"
    ]
    assert not swept.table("faults", entry.run)
