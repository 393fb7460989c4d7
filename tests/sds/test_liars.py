"""One member in five lies: nothing of the others' is lost, doubled or out of order."""

from __future__ import annotations

import pytest

from tests.sds.happened_before import HappenedBefore
from tests.sds.liars import honest_run


@pytest.mark.parametrize("seed", range(3))
def test_honest_members_get_everything_in_order_among_liars(seed: int) -> None:
    group = honest_run(15, 60, seed=seed)
    for name in group.honest:
        participant = group.members[name].participant
        senders = {participant.log.get(i).sender_id for _, i in participant.log.places()}  # type: ignore[union-attr]
        assert any(" as " in sender for sender in senders), "the lies were heard"


def test_a_liar_among_three_direct_peers_hides_no_message_on_its_way() -> None:
    """It said that it had purged what the other two had not got yet, and order was broken."""
    honest_run(15, 60, seed=4, loss=0.2, near=3)


def test_the_checker_sees_what_comes_too_early_twice_or_is_ordered_wrongly() -> None:
    truth = HappenedBefore()
    truth.sent("ann", "a1")
    truth.delivered("bob", "a1")
    truth.sent("bob", "b1")
    truth.sent("ann", "a2")
    truth.delivered("eve", "b1")
    assert len(truth.violations) == 1
    truth.delivered("eve", "a1")
    truth.delivered("eve", "a2")
    assert len(truth.violations) == 1
    truth.delivered("eve", "a2")
    assert len(truth.duplicates) == 1
    assert not truth.order([(1, "a1"), (2, "b1"), (3, "a2")])
    assert truth.order([(1, "b1"), (2, "a1"), (3, "a2")])
    assert truth.order([(1, "a2"), (2, "a1")])
