"""The way of one message to one peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from episub_router.cli.why import lines
from tests.pipeline.files import peer

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake
    from tests.pipeline.conftest import Swept

pytestmark = pytest.mark.spark

MS = 1_000_000


@pytest.fixture
def star(swept: Swept) -> Lake:
    """Its run `star` is that of `write_lossy_star`."""
    return swept.lake


def names() -> list[str]:
    from episub_router.pipeline.reading.names import peer_name

    return [peer_name(peer(number)) for number in range(4)]


def test_a_delivery(star: Lake) -> None:
    from episub_router.pipeline.why import way

    hub, spoke, *_ = names()
    found = way(star, "star", "id-2", spoke)
    assert (found.source, found.latency, found.why_not) == (hub, 20 * MS, "")
    (step,) = found.steps
    assert (step["sender"], step["receiver"], step["had"]) == (hub, spoke, 0)
    assert (step["sent"], step["waited"]) == (1 * MS, 1 * MS)
    assert (step["received"], step["delivered"], step["under_way"]) == (19 * MS, 20 * MS, 19 * MS)
    # 18 ms there, 20 ms back: neither clock can be further off than half of that.
    assert step["uncertainty"] == found.uncertainty == 19 * MS
    text = "\n".join(lines(found))
    assert "waited 1.000 ms" in text
    assert "latency 20.000 ms ± 19.000 ms" in text


def test_copies_in_vain_and_lost_ones(star: Lake) -> None:
    from episub_router.pipeline.why import way

    hub, *spokes = names()
    found = way(star, "star", "id-4", hub)
    assert (found.steps, found.latency, found.why_not) == ([], 0, "")
    assert [(copy["sender"], copy["fate"]) for copy in found.copies] == [
        (spoke, "duplicate") for spoke in sorted(spokes)
    ]
    missed = way(star, "star", "id-4", spokes[2][-12:])
    assert missed.peer == spokes[2]
    assert missed.latency is None
    assert [(copy["sender"], copy["fate"]) for copy in missed.copies] == [(hub, "lost")]
    assert missed.why_not == "overlay: it was sent, and didn't come in"
    assert "lost copy" in "\n".join(lines(missed))


def test_a_hostile_peer_is_called_so(swept: Swept) -> None:
    from episub_router.pipeline.why import way

    found = way(swept.lake, "full queue", "full", "p7")
    assert (found.why_not, found.cause) == ("hostile: nobody promises it anything", None)


def test_what_is_not_there_is_named(star: Lake) -> None:
    from episub_router.pipeline.lake import LakeError
    from episub_router.pipeline.why import way

    with pytest.raises(LakeError, match="no message id-9 in run star"):
        way(star, "star", "id-9", names()[1])
    with pytest.raises(LakeError, match="no peers of the run are called nobody"):
        way(star, "star", "id-1", "nobody")
