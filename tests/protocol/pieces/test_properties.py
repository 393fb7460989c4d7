"""Whatever comes in whatever order, a node has the message that its author sent, or none."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from episub_router.protocol import effects as ef
from episub_router.protocol import piece_messages as m
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.pieces import Pieces, transfers
from episub_router.protocol.pieces.cutting import MAX_SIZE, joined
from episub_router.protocol.pieces.transfers import Transfer
from tests.protocol.pieces.helpers import (
    DATA,
    GRAFT,
    PIECES,
    PREAMBLE,
    child_of,
    dropped,
    machine,
    offer,
    to,
    whole,
)

PEERS = ("a", "b", "c", "d")


@given(order=st.permutations(range(len(PIECES))), twice=st.sets(st.integers(0, len(PIECES) - 1)))
def test_any_order_and_duplication_gives_the_message_once(
    order: list[int], twice: set[int]
) -> None:
    node = child_of("a")
    found = []
    for index in order:
        for _ in range(1 + (index in twice)):
            found += whole(node.receive("a", PIECES[index], 0.1))
    assert found == [DATA]


@given(lost=st.sets(st.integers(0, len(PIECES) - 1), min_size=1))
def test_any_loss_ends_in_a_stated_failure_and_leaves_nothing_behind(lost: set[int]) -> None:
    node = child_of("a")
    found: list[ef.Effect] = []
    for index in range(len(PIECES)):
        if index not in lost:
            found += node.receive("a", PIECES[index], 0.1)
    for _ in range(1000):
        now = node.next_deadline()
        if now == float("inf"):
            break
        found += node.handle_timer(now)
    assert not whole(found)
    assert dropped(found) == [ef.DropReason.MESSAGE_LOST]
    assert not node.transfers.unfinished()


_bytes = st.binary(max_size=64)
_masks = st.integers(0, 1 << 70)
_ids = st.sampled_from(["id", "other"])
_sources = st.sampled_from(["source", "else"])
_preambles = st.one_of(
    st.just(PREAMBLE),
    st.builds(
        m.Preamble, _ids, _sources, st.integers(-1, 2 * MAX_SIZE), st.integers(1, 1 << 16),
        st.binary(min_size=32, max_size=32),
    ),
)  # fmt: skip
_mutated = st.builds(
    lambda piece, index, data, proof, size: replace(
        piece,
        index=piece.index if index is None else index,
        data=data or piece.data,
        proof=piece.proof if proof is None else tuple(proof),
        size=piece.size if size is None else size,
    ),
    st.sampled_from(PIECES),
    st.none() | st.integers(-2, 600),
    st.none() | _bytes,
    st.none() | st.lists(_bytes, max_size=12),
    st.none() | st.integers(-1, 40_000),
)
_messages: st.SearchStrategy[m.PieceMessage] = st.one_of(
    st.sampled_from(PIECES),
    _mutated,
    st.builds(m.PieceAnnounce, _preambles, _masks, st.integers(-1, 100)),
    st.builds(
        m.PieceOffer,
        st.lists(st.builds(m.TreeOffer, _sources, st.integers(-1, 1 << 20)), max_size=3).map(tuple),
        st.booleans(),
    ),
    st.builds(
        m.PieceGraft,
        st.lists(st.builds(m.PieceWant, _ids, _masks), max_size=3).map(tuple),
        st.none() | _sources,
    ),
    st.builds(m.PiecePrune, _sources, st.lists(st.sampled_from(PEERS), max_size=3).map(tuple)),
)


@settings(max_examples=150)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(PEERS), st.one_of(_messages, st.none(), st.just("down"))),
        max_size=60,
    )
)
def test_nothing_that_neighbors_send_makes_another_message_or_an_error(
    steps: list[tuple[str, m.PieceMessage | str | None]],
) -> None:
    node = machine(*PEERS)
    found: list[ef.Effect] = []
    now = 0.0
    for peer, message in steps:
        now += 0.2
        if message is None:
            found += node.handle_timer(now)
        elif isinstance(message, str):
            found += node.on_neighbor_down(peer, now)
        else:
            found += node.receive(peer, message, now)
        for tree in node.trees.values():
            assert len(tree.children) <= 2
            assert tree.parent is None or tree.parent not in tree.children
    for effect in found:
        if isinstance(effect, ef.Assembled) and effect.preamble == PREAMBLE:
            assert joined(effect.pieces) == DATA


def test_a_piece_that_others_have_overtaken_is_asked_of_the_parent_once() -> None:
    node = child_of("a")
    asked = []
    for index in (0, 2, 3, 4, 5):
        asked += to(node.receive("a", PIECES[index], 0.1), "a")
    assert asked == [m.PieceGraft((m.PieceWant("id", 1 << 1),))]
    # It waits for that piece itself: the others are no reason to ask again.
    assert not node.receive("a", m.PieceAnnounce(PREAMBLE, 0b111101, 1), 0.2)
    assert node.next_deadline() > 0.2
    node.receive("a", PIECES[1], 0.3)
    assert not node.receive("a", PIECES[6], 0.3)[1:]


def test_an_overtaken_piece_is_asked_again_where_the_request_may_be_lost() -> None:
    node = child_of("a")
    for index in (0, 2):
        node.receive("a", PIECES[index], 0.1)
    want = m.PieceGraft((m.PieceWant("id", 1 << 1),))
    assert to(node.receive("a", PIECES[3], 0.1), "a") == [want]
    assert not to(node.receive("a", PIECES[4], 0.2), "a")
    assert to(node.receive("a", PIECES[5], 5.0), "a") == [want]


def test_what_another_neighbour_was_asked_for_is_not_asked_of_the_parent() -> None:
    node = child_of("a", "b")
    node.receive("b", m.PieceAnnounce(PREAMBLE, 0b1111111, 2), 0.0)
    node.receive("a", PIECES[0], 0.1)
    while not (asked := to(node.handle_timer(node.next_deadline()), "b")):
        pass
    assert asked == [m.PieceGraft((m.PieceWant("id", 0b1111110),))]
    for index in (2, 3, 4, 5):
        assert not to(node.receive("a", PIECES[index], 9.0), "a")


def test_a_child_that_lacks_what_came_late_here_is_not_sent_it_twice() -> None:
    node = child_of("a", "b")
    node.receive("b", GRAFT, 0.1)
    for index in (0, 2, 3, 4, 1):
        node.receive("a", PIECES[index], 0.1)
    want = m.PieceGraft((m.PieceWant("id", 1 << 1),))
    assert not to(node.receive("b", want, 0.2), "b")
    assert to(node.receive("b", want, 0.9), "b") == [PIECES[1]]


def test_a_neighbour_whose_first_offer_is_late_is_announced_what_it_missed() -> None:
    """On a busy host it comes seconds after the link; a message pushed whole may be too large."""
    node = Pieces(BroadcastParams(piece_threshold=1), lambda peer: 0.1)
    node.on_neighbor_up("a", 10.0)
    node.publish(PREAMBLE, PIECES, 10.1)
    found = to(node.receive("a", m.PieceOffer(), 20.0), "a")
    assert [message for message in found if isinstance(message, m.PieceAnnounce)]


def test_pieces_of_an_unknown_message_are_refused() -> None:
    node = child_of("a", "b")
    assert dropped(node.receive("b", replace(PIECES[0], id="no"), 0.1)) == [
        ef.DropReason.UNSOLICITED
    ]


def test_a_piece_that_belongs_is_welcome_whoever_sends_it() -> None:
    """One that was the parent, or was asked for a place, may have sent it before it knew."""
    node = child_of("a", "b", "c")
    node.receive("c", GRAFT, 0.1)
    assert to(node.receive("b", PIECES[0], 0.1), "c") == [PIECES[0]]
    assert dropped(node.receive("a", PIECES[0], 0.2)) == [ef.DropReason.PIECE_LATE]


def test_ten_thousand_preambles_have_room_for_those_of_others() -> None:
    node = machine("a", "b")
    refused = 0
    for number in range(10_000):
        flood = replace(PREAMBLE, id=number, source=number // 10, size=1_000_000, piece_size=16384)
        refused += len(dropped(node.receive("a", m.PieceAnnounce(flood, 0, 1), 0.0)))
    assert refused >= 10_000 - transfers.MAX_OF_ONE_SOURCE
    assert not dropped(node.receive("b", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0))
    assert len(node.transfers.unfinished()) <= transfers.MAX_UNFINISHED
    for now in range(1, 90):
        node.handle_timer(float(now))
        assert len(node.transfers.unfinished()) <= transfers.MAX_UNFINISHED
    assert not node.transfers.unfinished()


def test_small_messages_that_are_kept_are_bounded_in_number() -> None:
    found = transfers.Transfers()
    for number in range(transfers.MAX_KEPT + 10):
        found.finish(Transfer(replace(PREAMBLE, id=number, size=1), None, 0, 0.0), 0.0)
    kept = [transfer.preamble.id for transfer in found.known()]
    assert kept == list(range(10, transfers.MAX_KEPT + 10))
    assert 9 in found


def test_a_slow_drip_is_given_up() -> None:
    size = MAX_SIZE // 2
    slow = m.Preamble("slow", "source", size, 32 * 1024, bytes(32))
    node = Pieces(
        BroadcastParams(piece_threshold=1), lambda peer: 0.1, belongs=lambda preamble, piece: True
    )
    node.on_neighbor_up("a", 0.0)
    node.receive("a", m.PieceAnnounce(slow, 0, 1), 0.0)
    node.receive("a", offer(), 0.0)
    node.receive("a", offer(accepted=True), 0.0)
    found: list[ef.Effect] = []
    for index in range(200):
        now = 9.0 * index
        found += node.handle_timer(now)
        found += node.receive("a", m.Piece("slow", bytes(32), index, b"", (), 32 * 1024), now)
    assert ef.DropReason.MESSAGE_LOST in dropped(found)
    assert not node.transfers.unfinished()
