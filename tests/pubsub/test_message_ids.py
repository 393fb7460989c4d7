"""Ids of messages across restarts."""

from __future__ import annotations

import pytest
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from libp2p.pubsub.pubsub import Pubsub

from episub_router import ResilientPubsub


@pytest.mark.parametrize(("kind", "repeats"), [(Pubsub, True), (ResilientPubsub, False)])
def test_a_restarted_node_makes_new_ids(kind: type[Pubsub], repeats: bool) -> None:
    used: list[bytes] = []
    for _ in range(2):
        pubsub = kind(new_host(key_pair=create_new_key_pair(b"1" * 32)), FloodSub([PROTOCOL_ID]))
        try:
            used += [pubsub._next_seqno() for _ in range(1000)]
        finally:
            pubsub.seen_messages.stop()
    assert (len(set(used)) < len(used)) is repeats
