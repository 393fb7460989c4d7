"""The way that one message took to one peer: each link, each wait, and the copies in vain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from episub_router.pipeline.lake import GOLD, SILVER, Lake, LakeError
from episub_router.pipeline.run import on_demand

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A link on the way. Times are nanoseconds since the publishing, by the corrected clocks; None
    where no trace has them."""

    sender: str
    receiver: str
    had: int | None
    """When the sender had the message."""
    sent: int | None
    received: int | None
    """When the RPC with it came in."""
    delivered: int
    uncertainty: int | None
    """The clocks of the two may be apart by so much more or less; None: not bounded."""

    @property
    def waited(self) -> int | None:
        """Between the sender's having it and its sending it."""
        return None if self.sent is None or self.had is None else self.sent - self.had

    @property
    def under_way(self) -> int | None:
        """Between sending and delivery; where the sending isn't traced, since the sender had it."""
        begin = self.had if self.sent is None else self.sent
        return None if begin is None else self.delivered - begin


@dataclass(frozen=True, slots=True)
class VainCopy:
    """Another copy for the peer. `fate` is `duplicate`, `lost` (sent, and no trace has it coming
    in) or `dropped` (by the sender's queue); `time` is ns since the publishing."""

    sender: str
    fate: str
    time: int


@dataclass(frozen=True, slots=True)
class Cause:
    """Why it was late or lost (`answers.causes`). Times are ns since the publishing."""

    name: str
    detail: str | None
    sender: str | None
    """The link on which it became late."""
    receiver: str | None
    begin: int | None
    """Of the fault, if it is one."""
    end: int | None
    peers: tuple[str, ...]
    """That weren't there, or on the smaller side of a cut; some of them where they are many."""
    others: int | None


@dataclass(frozen=True, slots=True)
class DeliveryPath:
    """What became of one message at one peer."""

    run: str
    message: str
    peer: str
    source: str
    published: int
    """ns."""
    inferred: bool
    """The publishing isn't traced: the first delivery stands for it."""
    steps: tuple[Step, ...]
    """From the publisher on; the first of them may begin later, where a parent isn't traced. Empty
    at the publisher, and where the message didn't come."""
    latency: int | None
    """ns; None where it didn't come, or where a clock was set during the run."""
    uncertainty: int | None
    """Of the latency, in ns; None: not bounded."""
    copies: tuple[VainCopy, ...]
    why_not: str
    """Where the message didn't come, what is known of it; else empty."""
    cause: Cause | None = None
    """Where it was late or lost."""


def way(lake: Lake, run: str, message: str, peer: str) -> DeliveryPath:
    """The way of `message` to `peer`, or to the one peer whose name ends so, in `run`.

    Raises LakeError where there is no such message or peer, or no facts have been made of the run.
    """
    named = F.col("message") == message

    def rows(name: str, of: str = "message", layer: str = SILVER) -> list[_Row]:
        table = lake.read(layer, name, [run])
        chosen = table.where(named) if of == "message" else table
        return [row.asDict() for row in chosen.collect()]

    published = rows("publishes")
    if not published:
        raise LakeError(f"no message {message} in run {run}")
    (publish,) = published
    subscribed = rows("subscriptions", "run")
    delivered = {row["peer"]: row for row in rows("deliveries")}
    peer = _the_one(peer, {*delivered, publish["source"], *(row["peer"] for row in subscribed)})
    sent = [row.asDict() for row in on_demand(lake, "transmissions", [run]).where(named).collect()]
    errors = {row["peer"]: row["uncertainty"] for row in rows("clocks", "run")}
    begin = publish["time"]
    steps = _steps(peer, publish, delivered, sent, errors)
    got = delivered.get(peer)
    judged = [row for row in rows("causes", layer=GOLD) if row["peer"] == peer]
    cause = _cause(judged, rows("faults", "run", GOLD) if judged else (), begin)
    lost = [row for row in subscribed if row["peer"] == peer and row["topic"] == publish["topic"]]
    return DeliveryPath(
        run=run,
        message=message,
        peer=peer,
        source=publish["source"],
        published=begin,
        inferred=publish["inferred"],
        steps=tuple(steps),
        latency=got["latency"] if got else None,
        uncertainty=_sum(errors, publish["source"], peer),
        copies=tuple(_copies(peer, begin, got, sent, rows("duplicates"))),
        why_not="" if got or peer == publish["source"] else _why_not(begin, lost, cause),
        cause=cause,
    )


def _the_one(wanted: str, peers: set[str]) -> str:
    found = sorted(peer for peer in peers if peer == wanted) or sorted(
        peer for peer in peers if peer.endswith(wanted)
    )
    if len(found) != 1:
        raise LakeError(f"{len(found) or 'no'} peers of the run are called {wanted}")
    return found[0]


def _steps(
    peer: str,
    publish: _Row,
    delivered: Mapping[str, _Row],
    sent: Sequence[_Row],
    errors: Mapping[str, int | None],
) -> list[Step]:
    begin, steps, at = publish["time"], [], peer
    seen: set[str] = set()
    while at in delivered and at not in seen and (parent := delivered[at]["parent"]) is not None:
        seen.add(at)
        time = delivered[at]["time"]
        had = begin if parent == publish["source"] else delivered.get(parent, {}).get("time")
        steps.append(
            Step(
                sender=parent,
                receiver=at,
                had=None if had is None else had - begin,
                sent=_last(sent, begin, "send", parent, at, time, errors),
                received=_last(sent, begin, "recv", at, parent, time, {}),
                delivered=time - begin,
                uncertainty=_sum(errors, parent, at),
            )
        )
        at = parent
    return steps[::-1]


def _last(
    sent: Sequence[_Row],
    begin: int,
    direction: str,
    peer: str,
    remote: str,
    until: int,
    errors: Mapping[str, int | None],
) -> int | None:
    """When the last RPC before `until` with the message was sent or received, in ns since `begin`;
    as far as clocks may be apart, also after it."""
    slack = _sum(errors, peer, remote) or 0
    times = [
        row["time"]
        for row in sent
        if (row["direction"], row["peer"], row["remote"]) == (direction, peer, remote)
        and row["time"] <= until + slack
    ]
    return max(times) - begin if times else None


def _copies(
    peer: str, begin: int, got: _Row | None, sent: Sequence[_Row], duplicates: Sequence[_Row]
) -> list[VainCopy]:
    came: dict[str, int] = {}
    copies = []
    for row in duplicates:
        if row["peer"] == peer:
            copies.append(VainCopy(row["remote"], "duplicate", row["time"] - begin))
            came[row["remote"]] = came.get(row["remote"], 0) + 1
    if got is not None and got["parent"] is not None:
        came[got["parent"]] = came.get(got["parent"], 0) + 1
    for row in sorted(sent, key=lambda row: row["time"]):
        if row["remote"] != peer or row["direction"] == "recv":
            continue
        if row["direction"] == "drop":
            copies.append(VainCopy(row["peer"], "dropped", row["time"] - begin))
        elif came.get(row["peer"], 0) > 0:
            came[row["peer"]] -= 1
        else:
            copies.append(VainCopy(row["peer"], "lost", row["time"] - begin))
    return sorted(copies, key=lambda copy: (copy.time, copy.sender))


def _cause(found: Sequence[_Row], faults: Sequence[_Row], begin: int) -> Cause | None:
    if not found:
        return None
    (row,) = found
    fault = next((one for one in faults if one["fault"] == row["fault"]), None)
    return Cause(
        name=row["cause"],
        detail=row["detail"],
        sender=row["sender"],
        receiver=row["receiver"],
        begin=None if fault is None else fault["begin"] - begin,
        end=None if fault is None or fault["end"] is None else fault["end"] - begin,
        peers=() if fault is None else tuple(fault["peers"]),
        others=None if fault is None else fault["others"],
    )


def _why_not(begin: int, subscriptions: Sequence[_Row], cause: Cause | None) -> str:
    if cause is not None:
        return f"{cause.name}: {cause.detail}" if cause.detail else cause.name
    there = [
        row
        for row in subscriptions
        if row["since"] <= begin and (row["until"] is None or row["until"] > begin)
    ]
    if not there:
        return "it was not subscribed when the message was published"
    (row, *_) = there
    if row["until"] is not None:
        seconds = (row["until"] - begin) / 1e9
        return f"it was gone {seconds:.3f} s after the publishing ({row['ending']})"
    return "it was not linked yet when the message was published"


def _sum(errors: Mapping[str, int | None], a: str, b: str) -> int | None:
    first, second = errors.get(a), errors.get(b)
    return None if first is None or second is None else first + second
