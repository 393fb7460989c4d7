"""What one member with a valid key costs the others: bytes and CPU time of each victim.

    python -m tests.benchmarks.sds_attacks

Simulated, in virtual time. A victim's bytes are those that it gets besides the attacker's own, or
has to send, beyond those of the same time without an attack. Published messages count with pubsub's
envelope, and made-up senders have names as long as peer ids. A victim's share of a core is what the
whole simulation takes, by victim and second, likewise. Of requests over a direct stream, answers
are the attacker's traffic, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from trio.testing import MockClock

from episub_router.pb import sds_pb2
from episub_router.sds.net.access import StoreAccess
from episub_router.sds.net.exchange import ExchangeServer
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.entry import LogEntry, RangeHash
from episub_router.sds.protocol.message import HistoryEntry, Message
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.store.sqlite import MemoryStore
from episub_router.sds.wire.codec import Codec
from episub_router.sds.wire.exchange import Request, encode_request
from tests.sds.harness import CHANNEL, OFFSET, Group, Links

_PROOF = sds_pb2.Origin(
    seqno=bytes(8), signature=bytes(64), key=bytes(36), topics=["t"], from_id=bytes(38)
).SerializeToString()
_ENVELOPE = rpc_pb2.Message(
    from_id=bytes(38), seqno=bytes(8), topicIDs=["room"], signature=bytes(64), key=bytes(36)
).ByteSize()
Say = Callable[[Group, int], dict[str, Any]]
"""The fields of the n-th message of an attacker."""


@dataclass(frozen=True)
class Attack:
    """`count` messages, one each `every` seconds, then `after` seconds in which honest members say
    something each 20 s, as during the attack."""

    name: str
    say: Say
    count: int
    every: float
    members: int = 6
    after: float = 0.0
    repair: bool = False
    prepare: Callable[[Group], None] = lambda group: None


def invented(n: int, count: int) -> tuple[HistoryEntry, ...]:
    ids = (hashlib.sha256(b"%d %d" % (n, i)).hexdigest() for i in range(count))
    return tuple(HistoryEntry(each) for each in ids)


def asks_again(group: Group, n: int) -> dict[str, Any]:
    known = [*group.sent_at]
    asked = (HistoryEntry(known[(16 * n + i) % len(known)]) for i in range(16))
    return {"repair_request": tuple(asked)}


def large_messages(group: Group) -> None:
    for n in range(400):
        group.send(sorted(group.members)[0], b"%d" % n + bytes(10_000))
    group.run(120.0)


def many_of_one(group: Group) -> None:
    for n in range(1000):
        group.send(sorted(group.members)[0], b"%d" % n)
    group.run(120.0)


def names_newest(group: Group, n: int) -> dict[str, Any]:
    return {
        "sender_id": f"{n:052}",
        "causal_history": (HistoryEntry([*group.sent_at][-1]),),
    }


ATTACKS = (
    Attack("tiny messages", lambda g, n: {"content": b"%d" % n}, 2200, 0.1),
    Attack(
        "syncs of made-up members", lambda g, n: {"sender_id": f"{n:052}"}, 500, 0.48, members=20
    ),
    Attack(
        "requests for repair, 10 kB messages",
        asks_again, 600, 1.0, members=20, repair=True, prepare=large_messages,
    ),
    Attack(
        "heads of made-up senders",
        lambda g, n: {"sender_id": f"{n:052}", "content": b"%d" % n},
        2040, 0.1, members=20, after=600.0,
    ),
    Attack("syncs that name a log of 1,000", names_newest, 100, 1.0, prepare=many_of_one),
    Attack(
        "syncs of 1,024 invented ids",
        lambda g, n: {"causal_history": invented(n, 1024)}, 60, 5.0, after=600.0,
    ),
    Attack(
        "200 invented ids", lambda g, n: {"causal_history": invented(n, 200)}, 1, 20.0, after=600.0
    ),
)  # fmt: skip


def simulated(attack: Attack, *, active: bool) -> tuple[int, float, float, float]:
    """Bytes that the attacker sends to each victim, all others of a victim, the CPU time of one,
    and for how many seconds."""
    group = Group(
        attack.members,
        seed=1,
        links=Links(streams=not attack.repair),
        params=SdsParams(repair=attack.repair),
    )
    *victims, mallory = sorted(group.members)
    group.crash(mallory)
    group.run(60.0)
    attack.prepare(group)
    group.bytes.clear()
    group.published.clear()
    start, cpu, sent, spoke = group.now, time.process_time(), 0, 0.0
    until = attack.count * attack.every + attack.after
    for n in range(attack.count):
        if active:
            clock = int((group.now + OFFSET) * 1000)
            draft = Message(channel_id=CHANNEL, sender_id=mallory, lamport=clock)
            raw, message_id = group.codec.encode(replace(draft, **attack.say(group, n)))
            message = replace(group.codec.decode(raw), message_id=message_id)
            sent += len(raw) + _ENVELOPE
            for name in victims:
                group.arrive(mallory, name, message, raw)
        group.run(attack.every)
        if group.now - start >= spoke:
            group.send(group.rng.choice(victims), b"honest")
            spoke += 20.0
    while group.now - start < until:
        group.send(group.rng.choice(victims), b"honest")
        group.run(20.0)
    lacking = [
        name
        for name in victims
        for i in group.sent_at
        if i not in group.members[name].participant.log
    ]
    assert len(lacking) <= 2 * len(victims), "honest messages are missing"  # the last are new
    assert not group.truth.violations, group.truth.violations[:3]
    took = time.process_time() - cpu
    size = group.bytes.total() / len(victims) + _ENVELOPE * group.published.total()
    return sent, size, took / len(victims), group.now - start


@dataclass
class Served:
    """A channel of `count` messages of `size` bytes, which can be asked."""

    count: int
    size: int
    topic_name = "t"
    channel_id = CHANNEL
    store_key = CHANNEL
    authorize = None

    def __post_init__(self) -> None:
        self.params = SdsParams(log_limit=max(1000, self.count))
        self.access = StoreAccess(MemoryStore())
        self.access.store.load(CHANNEL, "me", 1)
        codec = Codec(self.params)
        self.participant = Participant(
            "me", CHANNEL, self.params, codec=codec, rng=random.Random(1), now=0.0,
            wall_offset=OFFSET,
        )  # fmt: skip
        for n in range(self.count):
            clock = int(OFFSET * 1000) + n
            draft = Message(
                channel_id=CHANNEL, sender_id="me", lamport=clock, content=bytes(self.size)
            )
            raw, message_id = codec.encode(draft)
            entry = LogEntry(clock, "me", clock, len(raw))
            logged = fx.Logged(replace(draft, message_id=message_id), entry, raw, _PROOF)
            self.access.store.commit(CHANNEL, [logged])
            self.participant.log.add(message_id, entry, (), head=True)

    def ranges(self, count: int) -> tuple[RangeHash, ...]:
        places = self.participant.log.places()
        bounds = [None, *(places[len(places) * n // count] for n in range(1, count)), None]
        return tuple(RangeHash(bounds[n], bounds[n + 1], 1, b"x") for n in range(count))


class NoHost:
    def set_stream_handler(self, protocol: str, handler: object) -> None:
        pass


async def asked(served: Served, ask: fx.Ask, seconds: float) -> tuple[int, float]:
    """One asks as often as it can, answers being free: its bytes, and the CPU time that it
    costs."""
    server = ExchangeServer(cast(Any, NoHost()))
    server.add(cast(Any, served))
    stream = cast(Any, SimpleNamespace(muxed_conn=SimpleNamespace(peer_id=ID(b"mallory"))))
    size = 0
    data = encode_request(Request("t", CHANNEL, ask))
    end, cpu = trio.current_time() + seconds, time.process_time()
    while trio.current_time() < end:
        answer, _ = await server._framed_answer(stream, data)
        size += len(data) + len(answer)
        await trio.sleep(0.002)
    return size, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for which one asks")
    args = parser.parse_args()
    for attack in ATTACKS:
        sent, size, cpu, seconds = simulated(attack, active=True)
        _, before, cpu_before, _ = simulated(attack, active=False)
        more = max(0.0, size - before)
        row = {
            "attack": attack.name, "seconds": seconds, "attacker_bytes": sent,
            "victim_bytes": more, "ratio": more / sent,
            "cpu_percent": 100 * (cpu - cpu_before) / seconds,
        }  # fmt: skip
        print(json.dumps(row), flush=True)
    few, many, large = Served(10, 10), Served(100_000, 10), Served(300, 900_000)
    for name, served, ask in (
        ("small comparisons", few, fx.AskCompare("", bytes(16), few.ranges(1))),
        ("comparisons of 64 ranges", many, fx.AskCompare("", bytes(16), many.ranges(64))),
        ("pages of 100,000 messages", many, fx.AskRange("", 4000)),
        ("pages of messages of 900 kB", large, fx.AskRange("", 4000)),
    ):
        clock = MockClock(autojump_threshold=0)
        sent, cpu = trio.run(asked, served, ask, args.seconds, clock=clock)
        row = {
            "attack": name, "seconds": args.seconds, "attacker_bytes": sent, "victim_bytes": 0,
            "ratio": 0, "cpu_percent": 100 * cpu / args.seconds,
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
