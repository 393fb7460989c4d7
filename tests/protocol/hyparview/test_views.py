"""The two views: bounds, random picks, exchanges (E01, E13, E19)."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from episub_router.protocol.hyparview.views import ActiveView, Link, PassiveView
from episub_router.protocol.messages import LinkKind

peers = st.lists(st.integers(0, 30), max_size=40)


def passive(size: int, *known: int) -> PassiveView:
    view = PassiveView(size)
    for peer in known:
        view.add(peer, Random(0))
    return view


@given(st.integers(1, 10), peers, st.integers(0, 99))
def test_passive_view_stays_full_and_within_its_size(
    size: int, added: list[int], seed: int
) -> None:
    """E01: one peer at a time makes room for a new one; the new one always gets in."""
    view = PassiveView(size)
    known: set[int] = set()
    for peer in added:
        before = set(view)
        view.add(peer, Random(seed))
        known.add(peer)
        assert peer in view
        assert len(before - set(view)) <= 1
        assert len(view) == len(set(view)) == min(size, len(set(view) | before), len(known))


@given(st.integers(1, 10), peers, peers, st.integers(0, 99))
def test_exchange_keeps_the_size_and_brings_only_what_was_given(
    size: int, known: list[int], incoming: list[int], seed: int
) -> None:
    """E19: whatever comes, the view holds old and incoming peers, and none get lost for free."""
    view = passive(size, *known)
    before = set(view)
    view.exchange(incoming, known[:3], Random(seed))
    assert set(view) <= before | set(incoming)
    assert len(view) == min(size, len(before | set(incoming)))


def test_exchange_gives_up_what_was_sent_away_first() -> None:
    """E19: the entries that the other node got make room; the rest stays."""
    view = passive(5, 1, 2, 3, 4, 5)
    view.exchange([6, 7], [2, 4], Random(0))
    assert set(view) == {1, 3, 5, 6, 7}


def test_exchange_keeps_what_it_has_just_taken() -> None:
    """E19: a full view makes room among the old entries alone."""
    for seed in range(20):
        view = PassiveView(4)
        for peer in (1, 2, 3, 4):
            view.add(peer, Random(0))
        view.exchange([6, 7, 8], [], Random(seed))
        assert {6, 7, 8} < set(view)
        assert len(view) == 4


def test_samples_are_random_distinct_and_leave_out_who_they_should() -> None:
    """E19: sampled peers differ from draw to draw, and are never asked for twice."""
    view = passive(20, *range(20))
    rng = Random(0)
    samples = [view.sample(rng, 5, 0, 1) for _ in range(50)]
    assert all(len(set(sample)) == 5 for sample in samples)
    assert {peer for sample in samples for peer in sample} == set(range(2, 20))
    assert len(view.sample(rng, 50)) == 20


def test_picks_from_the_active_view() -> None:
    """E06: a random neighbour other than those named, or nobody."""
    view = ActiveView()
    for peer in range(4):
        view.add(peer, Link(LinkKind.RANDOM if peer else LinkKind.NEAR, 0.0))
    rng = Random(0)
    assert {view.pick(rng, 0, 1) for _ in range(50)} == {2, 3}
    assert view.pick(rng, 0, 1, 2, 3) is None
    assert view.count(LinkKind.RANDOM) == 3
    assert view.count(LinkKind.NEAR) == 1
