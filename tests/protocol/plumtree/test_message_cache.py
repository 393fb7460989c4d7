"""The cache of messages and the ids that were seen (E41)."""

from __future__ import annotations

from collections import Counter

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason
from episub_router.protocol.messages import Gossip, Graft, IHave, Prune
from episub_router.protocol.params import SEEN_MESSAGES, BroadcastParams
from episub_router.protocol.plumtree.lazy_push import MAX_QUEUED
from episub_router.protocol.plumtree.message_cache import (
    MAX_VALIDATING,
    GossipMessage,
    MessageCache,
)
from episub_router.protocol.plumtree.missing_messages import MAX_MISSING
from tests.protocol.helpers import Branch, drops, ihave, sent


def cached(store: MessageCache, ids: range) -> list[int]:
    return [id for id in ids if store.get(id) is not None]


def filled(count: int, size: int = 10, every: float = 0.0, **params: object) -> MessageCache:
    store = MessageCache(BroadcastParams(**params))  # type: ignore[arg-type]
    for id in range(count):
        store.store(GossipMessage(id), f"payload {id}", size, id * every)
    return store


def test_cache_is_bounded_in_messages() -> None:
    """E41: the oldest payloads go; their ids stay known."""
    store = filled(100, cache_messages=10)
    assert cached(store, range(100)) == list(range(90, 100))
    assert store.cached_messages == 10
    assert all(id in store for id in range(100))


def test_cache_is_bounded_in_bytes() -> None:
    """E41: by the sizes of the payloads, whatever their number."""
    store = filled(100, size=10, cache_bytes=55)
    assert cached(store, range(100)) == list(range(95, 100))
    assert store.cached_bytes == 50
    store.store(GossipMessage("large"), "payload", 40, 0.0)
    assert store.cached_bytes == 50
    store.store(GossipMessage("too large"), "payload", 56, 0.0)
    assert store.cached_bytes == store.cached_messages == 0
    assert "too large" in store


def test_cache_is_bounded_in_time() -> None:
    """E41: payloads for cache_ttl, ids for seen_ttl."""
    store = filled(10, every=1.0, cache_ttl=5, seen_ttl=20)
    assert cached(store, range(10)) == [4, 5, 6, 7, 8, 9]
    store.expire(12.5)
    assert cached(store, range(10)) == [8, 9]
    assert len(store) == 10
    store.expire(25.5)
    assert [id for id in range(10) if id in store] == [6, 7, 8, 9]
    store.expire(100)
    assert len(store) == store.cached_bytes == 0


def test_seen_ids_are_bounded_in_number() -> None:
    """E41: the oldest are forgotten first."""
    count = SEEN_MESSAGES + 20
    store = filled(count, cache_messages=10)
    assert [id for id in range(count) if id in store] == list(range(20, count))


def test_recent_messages_come_newest_first() -> None:
    """E39, E41: what is announced to a new neighbour."""
    store = filled(10, every=1.0)
    assert [stored.id for stored in store.recent(6.5, 0.0)] == [9, 8, 7]


def test_payloads_expire_though_nothing_comes() -> None:
    """E41: the cache is looked at with every timer."""
    branch = Branch("a")
    branch.publish("m", 10)
    branch.now += BroadcastParams().cache_ttl + 1
    branch.machine.handle_timer(branch.now)
    assert branch.machine.store.cached_bytes == 0
    assert drops(branch.receive("a", Graft(("m",)))) == [DropReason.GRAFT_NOT_CACHED]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_memory_is_bounded_after_many_messages() -> None:
    """E41: 12,500 messages by all ways in (published, pushed, announced, validated, lost) leave
    no more behind than the bounds allow."""
    params = BroadcastParams(cache_messages=100, cache_ttl=2, seen_ttl=3)
    branch = Branch("a", "b", lazy=["c", "d"], params=params)
    machine = branch.machine
    for n in range(2_500):
        branch.publish(f"own {n}", 100)
        branch.receive("a", Gossip(f"pushed {n}", 2, "payload", 100))
        branch.receive("c", ihave(f"pushed {n}", f"never {n}"))
        branch.handle(ev.PayloadArrived("b", f"valid {n}", 1))
        branch.handle(ev.PayloadArrived("a", f"invalid {n}", 1))
        branch.handle(ev.PayloadAccepted("b", f"valid {n}", "payload", 100))
        branch.receive("d", Graft((f"own {n}", f"nothing {n}")))
        branch.receive("d", Prune())
        branch.handle(ev.PayloadDropped("b", f"own {n}", 1))
        branch.wait(0.01)
    assert len(machine.store) <= 3 * 301  # Three messages each 0.01 s.
    assert machine.store.cached_messages == 100
    assert machine.store.cached_bytes == 100 * 100
    assert machine.missing <= MAX_MISSING
    assert machine.pending <= MAX_VALIDATING
    told: Counter[str] = Counter()
    for peer, message in sent(branch.wait(60), IHave):
        told[peer] += len(message.summary)
    assert max(told.values()) <= 2 * MAX_QUEUED  # The queue, and what one peer is owed.
    assert machine.missing == 0
    assert [peer for peer, _ in sent(branch.publish("last"))] != []
