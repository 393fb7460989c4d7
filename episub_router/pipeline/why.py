"""The way that one message took to one peer: each link, each wait, and the copies in vain."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from episub_router.pipeline.lake import GOLD, SILVER, Lake, LakeError

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeliveryPath:
    """What became of one message at one peer. `published` is ns, all other times are ns since then;
    where it isn't traced (`inferred`), it is the first delivery. None is what no trace has.

    `steps` lead from the publisher to the peer, the first of them begins later where a parent isn't
    traced; there is none at the publisher, and where the message didn't come, of which `why_not`
    tells. Each has sender, receiver, when the sender `had` the message and `sent` it, when the RPC
    with it was `received` and it was `delivered`, how long it `waited` at the sender and was
    `under_way`, by the corrected clocks, which may be apart by `uncertainty` (None: not bounded)
    more or less. `latency` is None, too, where a clock was set during the run.

    `copies` are others for the peer: sender, time, and fate: `duplicate`, `lost` (sent, and no
    trace has it coming in) or `dropped` (by the sender's queue). `cause` is why it was late or lost
    (`answers.causes`): name and detail, on the link from sender to receiver, or for a fault, from
    begin to end, in which `peers`, some of them where they are many, weren't there, or were on the
    smaller side of a cut, apart from so many `others`."""

    run: str
    message: str
    peer: str
    source: str
    published: int
    inferred: bool
    steps: list[_Row]
    latency: int | None
    uncertainty: int | None
    copies: list[_Row]
    why_not: str
    cause: _Row | None = None


def way(lake: Lake, run: str, message: str, peer: str) -> DeliveryPath:
    """The way of `message` to `peer`, or to the one peer whose name ends so, in `run`.

    Raises LakeError where there is no such message or peer, or no facts have been made of the run.
    """

    def rows(name: str, of_message: bool = True, layer: str = SILVER) -> list[_Row]:
        where = ds.field("message") == message if of_message else None
        found: list[_Row] = lake.look(layer, name, [run]).to_table(filter=where).to_pylist()
        return found

    published = rows("publishes")
    if not published:
        raise LakeError(f"no message {message} in run {run}")
    (publish,) = published
    subscribed = rows("subscriptions", of_message=False)
    delivered = {row["peer"]: row for row in rows("deliveries")}
    states = lake.look(SILVER, "changes", [run]).to_table(filter=ds.field("state") == "hostile")
    hostile = states["peer"].to_pylist()
    peers = {*delivered, publish["source"], *(row["peer"] for row in subscribed), *hostile}
    peer = _the_one(peer, peers)
    clocks = {row["peer"]: row for row in rows("clocks", of_message=False)}
    it = _Found(publish, delivered, list(_transmissions(lake, run, message, clocks)), clocks)
    got = delivered.get(peer)
    judged = [row for row in rows("causes", layer=GOLD) if row["peer"] == peer]
    faults = rows("faults", of_message=False, layer=GOLD) if judged else ()
    cause = _cause(judged[0], faults, it.begin) if judged else None
    there = [row for row in subscribed if row["peer"] == peer and row["topic"] == publish["topic"]]
    return DeliveryPath(
        run=run,
        message=message,
        peer=peer,
        source=publish["source"],
        published=it.begin,
        inferred=publish["inferred"],
        steps=it.steps(peer),
        latency=got["latency"] if got else None,
        uncertainty=it.uncertainty(publish["source"], peer),
        copies=it.copies(peer, [row for row in rows("duplicates") if row["peer"] == peer]),
        why_not=""
        if got or peer == publish["source"]
        else "hostile: nobody promises it anything"
        if peer in hostile
        else _why_not(it.begin, there, cause),
        cause=cause,
    )


def _transmissions(
    lake: Lake, run: str, message: str, clocks: Mapping[str, _Row]
) -> Iterator[_Row]:
    """RPCs with `message`, at either end, on one clock: direction, peer, remote, time."""
    columns = ["event", "peer", "remote", "time", "parts"]
    for batch in lake.traced(run, "send", "recv", "drop").to_batches(columns=columns):
        part = pc.list_flatten(batch.column("parts"))
        kind, ids = pc.struct_field(part, "kind"), pc.struct_field(part, "messages")
        naming = pc.list_parent_indices(ids).filter(pc.equal(pc.list_flatten(ids), message))
        carrying = naming.filter(pc.equal(kind.take(naming), "message"))
        place = pc.list_parent_indices(batch.column("parts")).take(carrying)
        of_rpc = batch.drop_columns(["parts"]).take(place)
        for row in of_rpc.to_pylist():
            if clock := clocks.get(row["peer"]):
                drifted = clock["drift"] * (row["time"] - clock["since"])
                row["time"] -= clock["correction"] + round(drifted)
            yield row | {"direction": row["event"]}


def _the_one(wanted: str, peers: set[str]) -> str:
    found = [wanted] if wanted in peers else [peer for peer in peers if peer.endswith(wanted)]
    if len(found) != 1:
        raise LakeError(f"{len(found) or 'no'} peers of the run are called {wanted}")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a message: its publishing, who delivered it, its transmissions, and how far
    clocks may be off."""

    publish: _Row
    delivered: Mapping[str, _Row]
    sent: Sequence[_Row]
    clocks: Mapping[str, _Row]

    @property
    def begin(self) -> int:
        return int(self.publish["time"])

    def steps(self, peer: str) -> list[_Row]:
        """The links to `peer`, from the publisher on."""
        steps: list[_Row] = []
        seen: set[str] = set()
        while peer in self.delivered and peer not in seen:
            seen.add(peer)
            parent, time = self.delivered[peer]["parent"], self.delivered[peer]["time"]
            if parent is None:
                break
            had: int | None = self.begin
            if parent != self.publish["source"]:
                had = self.delivered.get(parent, {}).get("time")
            # As far as clocks may be apart, a sending may be later than its receipt.
            slack = self.uncertainty(parent, peer)
            delivered = time - self.begin
            had = None if had is None else had - self.begin
            sent = self._last("send", parent, peer, time + (slack or 0))
            # Where the sending isn't traced, it was under way since the sender had it.
            since = had if sent is None else sent
            steps.append({
                "sender": parent, "receiver": peer, "had": had, "sent": sent,
                "received": self._last("recv", peer, parent, time), "delivered": delivered,
                "waited": None if sent is None or had is None else sent - had,
                "under_way": None if since is None else delivered - since, "uncertainty": slack,
            })  # fmt: skip
            peer = parent
        return steps[::-1]

    def _last(self, direction: str, peer: str, remote: str, until: int) -> int | None:
        """When the last RPC until then with the message was sent or received, in ns since its
        publishing."""
        wanted = direction, peer, remote
        times = [
            row["time"]
            for row in self.sent
            if (row["direction"], row["peer"], row["remote"]) == wanted and row["time"] <= until
        ]
        return max(times) - self.begin if times else None

    def copies(self, peer: str, duplicates: Sequence[_Row]) -> list[_Row]:
        """The copies for `peer` that were in vain or lost."""
        came = Counter(row["remote"] for row in duplicates)
        found = [(row["time"], row["remote"], "duplicate") for row in duplicates]
        came[self.delivered.get(peer, {}).get("parent")] += 1
        for row in sorted(self.sent, key=lambda row: row["time"]):
            if row["remote"] != peer or row["direction"] == "recv":
                continue
            if row["direction"] == "send" and came[row["peer"]] > 0:
                came[row["peer"]] -= 1
            else:
                fate = "dropped" if row["direction"] == "drop" else "lost"
                found.append((row["time"], row["peer"], fate))
        return [{"sender": sender, "fate": fate, "time": time - self.begin}
                for time, sender, fate in sorted(found)]  # fmt: skip

    def uncertainty(self, a: str, b: str) -> int | None:
        """How far the clocks of two may be apart; None: not bounded."""
        first, second = (self.clocks.get(peer, {}).get("uncertainty") for peer in (a, b))
        return None if first is None or second is None else first + second


def _cause(row: _Row, faults: Sequence[_Row], begin: int) -> _Row:
    fault = next((one for one in faults if one["fault"] == row["fault"]), {})
    times = {name: fault.get(name) for name in ("begin", "end")}
    return (
        {"name": row["cause"], "peers": fault.get("peers", ()), "others": fault.get("others")}
        | {name: row[name] for name in ("detail", "sender", "receiver")}
        | {name: None if time is None else time - begin for name, time in times.items()}
    )


def _why_not(begin: int, subscriptions: Sequence[_Row], cause: _Row | None) -> str:
    if cause is not None:
        return ": ".join(filter(None, (cause["name"], cause["detail"])))
    for row in subscriptions:
        if row["since"] <= begin and (row["until"] is None or row["until"] > begin):
            if row["until"] is None:
                return "it was not linked yet when the message was published"
            seconds = (row["until"] - begin) / 1e9
            return f"it was gone {seconds:.3f} s after the publishing ({row['ending']})"
    return "it was not subscribed when the message was published"
