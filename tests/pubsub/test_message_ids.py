"""Ids of messages across restarts."""

from __future__ import annotations

import pytest
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubParams, PubsubParams, ResilientPubsub


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


def test_ids_are_known_as_long_as_the_router_knows_them() -> None:
    """What the router may still be announced must not be new to Pubsub."""
    pubsub = ResilientPubsub(new_host(), FloodSub([PROTOCOL_ID]))
    other = ResilientPubsub(new_host(), FloodSub([PROTOCOL_ID]), params=PubsubParams(seen_ttl=7))
    try:
        assert pubsub.seen_messages.ttl == EpisubParams().broadcast.seen_ttl
        assert other.seen_messages.ttl == 7
    finally:
        pubsub.seen_messages.stop()
        other.seen_messages.stop()
