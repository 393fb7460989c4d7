"""Damaged frames of pieces into one node's machine:
`python -m tests.security.piece_fuzz --frames 1000000`.

Outside CI, where 10^6 frames take too long; test_fuzz.py does 15,000.
"""

from __future__ import annotations

import argparse
import json
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import effects as ef
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import (
    PIECE_MESSAGES,
    PieceAnnounce,
    PieceGraft,
    PieceMessage,
    PieceOffer,
    PiecePrune,
    PieceWant,
    TreeOffer,
)
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import cut, joined
from episub_router.protocol.pieces.narrow_tree import MAX_TREES
from episub_router.protocol.pieces.transfers import MAX_UNFINISHED
from episub_router.wire import (
    Frame,
    WireError,
    decode_frame,
    encode_frame,
    sign_preamble,
    source_id,
)
from tests.wire.strategies import damaged, rpc_with, varint

_PEERS = tuple(b"\x00\x01" + bytes([number]) for number in range(4))
_HONEST = _PEERS[0]
_KEYS = create_new_key_pair(b"\x61" * 32)
_AUTHOR = ID.from_pubkey(_KEYS.public_key).to_bytes()
_SOURCE = source_id(_AUTHOR)
_STEP = 0.002
"""Seconds between two frames: a message is given up, and another one is published, in between."""
_FRAMES_OF_ONE = 500


def _published(number: int) -> tuple[bytes, list[PieceMessage]]:
    """A message, and what neighbours may send of it."""
    data = random.Random(number).randbytes(8192 * 2 + 40)
    seqno = number.to_bytes(8)
    preamble, pieces = cut(_AUTHOR + seqno, _SOURCE, data)
    envelope = sign_preamble(_KEYS.private_key, "t", preamble, _AUTHOR, seqno)
    preamble = replace(preamble, envelope=envelope)
    return data, [
        PieceAnnounce(preamble, 0b111, 1),
        PieceOffer((TreeOffer(_SOURCE, 1),)),
        PieceOffer((TreeOffer(_SOURCE, 1),), accepted=True),
        PieceGraft((PieceWant(preamble.id, 0b101),), _SOURCE),
        PieceGraft((PieceWant(preamble.id, 0b010),)),
        PiecePrune(_SOURCE, _PEERS[1:]),
        *pieces,
    ]


def _frame(rng: random.Random, message: PieceMessage) -> rpc_pb2.RPC:
    """`message` in a frame, damaged or not."""
    rpc = encode_frame(Frame("t", 1, (message,)), lambda _: None)
    control = pb.EpisubRpc.FromString(rpc.SerializeToString()).episub.control[0]
    raw = damaged(rng, control.SerializeToString())
    return rpc_with(b"\x0a\x01t\x10\x01\x22" + varint(len(raw)) + raw)


def _messages(rng: random.Random, sent: list[PieceMessage]) -> Iterator[PieceMessage]:
    """What a node reads of a damaged frame."""
    try:
        frame = decode_frame(_frame(rng, rng.choice(sent)))
    except WireError:
        return
    assert frame is not None
    for message in frame.messages:
        # What was damaged may read as a message of another kind.
        if isinstance(message, PIECE_MESSAGES):
            yield message


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """Let a machine act on `count` frames; how many it refused, and how many messages were whole.

    Raises AssertionError if a message was another than the one that was published, or a bound on
    what is kept was exceeded.
    """
    rng = random.Random(seed)
    node = Pieces(BroadcastParams(piece_threshold=1), lambda peer: 0.1)
    refused = whole = 0
    data, sent = _published(0)
    for number in range(count):
        now = number * _STEP
        if number % _FRAMES_OF_ONE == 0:
            data, sent = _published(number)
            # One that sent a bad piece is asked for nothing while it is a neighbour.
            for peer in _PEERS:
                node.on_neighbor_down(peer, now)
                node.on_neighbor_up(peer, now)
        effects = node.handle_timer(now) if node.next_deadline() <= now else []
        peer = rng.choice(_PEERS)
        # One that sends a bad piece is asked for nothing any more: another one is correct.
        for message in [rng.choice(sent)] if peer == _HONEST else _messages(rng, sent):
            effects += node.receive(peer, message, now)
        for effect in effects:
            refused += isinstance(effect, ef.Dropped)
            if isinstance(effect, ef.Assembled) and effect.preamble == sent[0].preamble:  # type: ignore[union-attr]
                assert joined(effect.pieces) == data
                whole += 1
        assert len(node.transfers.unfinished()) <= MAX_UNFINISHED
        assert len(node.takers) <= len(_PEERS)
        assert len(node.trees) <= MAX_TREES
    return refused, whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tracemalloc.start()
    refused, whole = fuzz(options.frames, options.seed)
    kept, most = tracemalloc.get_traced_memory()
    row = {
        "frames_of": "large messages", "frames": options.frames, "refused": refused,
        "whole": whole, "kept_mib": round(kept / 2**20, 1), "mib": round(most / 2**20, 1),
    }  # fmt: skip
    print(json.dumps(row))


if __name__ == "__main__":
    main()
