"""Frames at random into a live node: `python -m tests.security.fuzz --frames 10000000`.

Outside CI, where 10^7 frames take too long; test_fuzz.py does 1,000. Each frame starts as one of
those in megabytes.py, and is damaged or not.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections.abc import Iterator
from itertools import islice

import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.utils import encode_varint_prefixed

from episub_router import PubsubDrop, PubsubParams, ResilientPubsub
from episub_router.util.params import Rate
from tests.hosts import receive
from tests.router.overlays import overlay_of, parts
from tests.security.megabytes import KINDS, TOPIC
from tests.security.streams import suffer
from tests.wire.strategies import damaged

_SEEDS_OF_A_KIND = 4
_LONGEST = 2000
"""Bytes; longer ones would be most of the work."""


def frames(rng: random.Random) -> Iterator[bytes]:
    """Frames without end, with their lengths."""
    seeds = [rpc for made in KINDS.values() for rpc in islice(made(), _SEEDS_OF_A_KIND)]
    seeds = [rpc for rpc in seeds if len(rpc) <= _LONGEST]
    while True:
        yield encode_varint_prefixed(damaged(rng, rng.choice(seeds)))


async def fuzz(count: int, seed: int) -> int:
    """Have a node read `count` frames; how many were no RPC. Raises AssertionError if anything came
    out of them but a refusal, or if the node stopped serving others."""
    rng = random.Random(seed)
    hostile = ID.from_pubkey(create_new_key_pair(rng.randbytes(32)).public_key)
    # With the default most frames would be dropped unread, as those of a peer that costs too much.
    options = {
        "params": PubsubParams(work=Rate(1, 10**12), faults=Rate(1, 10**12), warn_every=10**6)
    }
    async with overlay_of(2, pubsub_class=ResilientPubsub, pubsub_options=options) as (
        (honest, victim),
        (_, subscription),
    ):
        pubsub = victim.pubsub
        assert isinstance(pubsub, ResilientPubsub)
        made = frames(rng)
        for _ in range(count):
            # One stream for each: a frame that is no RPC ends it.
            await suffer(victim, hostile, next(made))
        assert PubsubDrop.STREAM_FAILED not in pubsub.drops
        assert parts(victim).counts().get("error", 0) == 0
        await honest.pubsub.publish(TOPIC, b"still there")
        while (await receive(subscription))[0].data != b"still there":
            pass
        return pubsub.drops[PubsubDrop.FRAME_MALFORMED]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=10**7)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable()  # Each thing that is dropped has a line.
    refused = trio.run(fuzz, options.frames, options.seed)
    row = {"frames_of": "all kinds", "frames": options.frames, "refused": refused}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
