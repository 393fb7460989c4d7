"""Receiving against the npm package, in the same run, as the log grows.

    python -m tests.benchmarks.sds_vs_js

The same bytes go to both: messages of one sender in order, 18,752 bytes of filter and two ids
of history each, as the package sends them. Both decode, check dependencies, deliver and log;
ours also commits to its store, which an application reads. The logs are filled first, then the
next messages are timed, both in CPU time, and both take all of `WINDOW` messages that have come:
ours commits them in one transaction, as a channel does in each turn of its loop (`alone`: messages
that come one by one, a transaction each). Ours of all sizes take turns, and
the median counts: so work that the machine has besides is the same for all. Beyond `--js-up-to`
there is ours alone: of 200,000 messages the log keeps the newest 100,000 (`log_limit`), and each
that comes lets another one go.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Sequence
from statistics import median

from episub_router.sds.interop import Interop
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.message import HistoryEntry, Message, ReceivedMessage
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.store.sqlite import MemoryStore
from episub_router.sds.store.values import Cursor
from tests.sds.js_peer import JsPeer, require

SIZES = (500, 5_000, 50_000, 200_000)
WINDOW = 250
PARAMS = SdsParams()
INTEROP = Interop()
CODEC = INTEROP.codec(PARAMS, lambda: START)
START = 1_760_000_000_000
NAMING = INTEROP.dialect()


def made(count: int, timed: int) -> list[bytes]:
    """`count` messages to fill the log with, without a filter, and `timed` more with one."""
    rng = random.Random(1)
    ids: list[str] = []
    result = []
    for n in range(count + timed):
        content = b"message %08d" % n
        new_id = NAMING.name("sender", "0", START + n, content)
        message = Message(
            sender_id="sender",
            message_id=new_id,
            channel_id="0",
            lamport=START + n,
            causal_history=tuple(HistoryEntry(i) for i in ids[-2:]),
            bloom_filter=rng.randbytes(18_752) if n >= count else None,
            content=content,
        )
        ids.append(new_id)
        result.append(CODEC.encode(message)[0])
    return result


class Ours:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.load("0", "py", 1)
        self.participant = Participant(
            "py",
            "0",
            PARAMS,
            codec=CODEC,
            dialect=INTEROP.dialect(),
            rng=random.Random(1),
            now=0.0,
            wall_offset=START / 1000,
        )

    def receive(self, some: Sequence[bytes]) -> None:
        effects: list[fx.Effect] = []
        for raw in some:
            effects += self.participant.receive(ReceivedMessage(CODEC.decode(raw), raw), 1.0)
        self.store.commit("0", [e for e in effects if isinstance(e, fx.Change)])

    def read(self) -> None:
        """The application has had all."""
        log = self.participant.log
        self.store.set_reader("0", Cursor(log.place(len(log) - 1), log.added))


def rates(timed: int) -> dict[int, tuple[float, float]]:
    """Messages a CPU second by what was received before, together and one by one."""
    rest: dict[int, list[bytes]] = {}
    ours: dict[int, Ours] = {}
    for size in SIZES:
        messages = made(size, timed)
        ours[size] = Ours()
        for start in range(0, size, WINDOW):
            ours[size].receive(messages[start : start + WINDOW])
        rest[size] = messages[size:]
    gc.collect()
    found: dict[int, tuple[list[float], list[float]]] = {size: ([], []) for size in SIZES}
    for start in range(0, timed, 2 * WINDOW):
        for size in SIZES:
            for at, together in zip((start, start + WINDOW), (WINDOW, 1), strict=True):
                begun = time.process_time()
                for first in range(at, at + WINDOW, together):
                    ours[size].receive(rest[size][first : first + together])
                ours[size].read()
                took = time.process_time() - begun
                found[size][together == 1].append(WINDOW / took)
    for size in SIZES:
        assert len(ours[size].participant.log) == min(size + timed, PARAMS.log_limit)
    return {size: (median(some), median(single)) for size, (some, single) in found.items()}


def time_js(messages: list[bytes], timed: int) -> float:
    peer = JsPeer()
    peer("open", channel_id="0", sender_id="js", options={"causalHistorySize": 2})
    hexes = [m.hex() for m in messages]
    peer("bench", messages=hexes[:500], timed=400)  # for Node.js to compile what it will use
    peer("open", channel_id="0", sender_id="js", options={"causalHistorySize": 2})
    answer = peer("bench", messages=hexes, timed=timed)
    peer.close()
    assert answer["log"] == len(messages), answer
    return float(answer["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timed", type=int, default=4000, help="messages timed at each size")
    parser.add_argument("--js-timed", type=int, default=200, help="the same, of the npm package")
    parser.add_argument("--js-up-to", type=int, default=50_000, help="messages in its log")
    args = parser.parse_args()
    require()
    ours = rates(args.timed)
    for size in SIZES:
        row: dict[str, float] = {"received": size, "ours": ours[size][0], "alone": ours[size][1]}
        if size <= args.js_up_to:
            some = made(size, args.js_timed)
            row["js"] = args.js_timed / time_js(some, args.js_timed)
            row["ratio"] = row["ours"] / row["js"]
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
