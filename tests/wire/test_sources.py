"""Sources in a frame: the tree of a payload, trees of GRAFT and PRUNE, and the features."""

from __future__ import annotations

from hashlib import sha256

import pytest
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.wire import WireFault, decode_frame, source_id
from tests.wire.strategies import peer_id, rpc_with
from tests.wire.test_decode_faults import AFTER, BEFORE, S1, decode

F = WireFault


@pytest.mark.parametrize(
    "message",
    [
        pb.Prune(sources=[b"7 bytes"]),
        pb.Prune(standby=[b""]),
        pb.Graft(sources=[b""], standby=[b"7 bytes"]),
    ],
)
def test_what_names_no_readable_source_is_not_about_the_default_tree(
    message: pb.Prune | pb.Graft,
) -> None:
    result = decode(message)
    assert result.messages == (BEFORE, AFTER)
    assert set(result.faults) == {F.BAD_SOURCE}


@pytest.mark.parametrize(
    ("header", "author", "along", "fault"),
    [
        (pb.Gossip(hops=1), peer_id(2), None, None),
        (pb.Gossip(hops=1, own_tree=False), peer_id(2), None, None),
        (pb.Gossip(hops=1, own_tree=True), peer_id(2), source_id(peer_id(2)), None),
        (pb.Gossip(hops=1, own_tree=True, along=S1), peer_id(2), source_id(peer_id(2)), None),
        (pb.Gossip(hops=1, along=S1), peer_id(2), S1, None),
        (pb.Gossip(hops=1, along=S1), b"", S1, None),
        (pb.Gossip(hops=1, own_tree=True), b"", None, F.BAD_SOURCE),
        (pb.Gossip(hops=1, along=b""), peer_id(2), None, F.BAD_SOURCE),
        (pb.Gossip(hops=1, along=b"9 bytes !"), peer_id(2), None, F.BAD_SOURCE),
    ],
)
def test_the_tree_in_a_gossip_header(
    header: pb.Gossip, author: bytes, along: bytes | None, fault: WireFault | None
) -> None:
    """The hops of a header are used although its tree can't be."""
    frame = pb.EpisubFrame(topic="t", seq=1, gossip=header)
    result = decode_frame(rpc_with(frame, rpc_pb2.Message(from_id=author, topicIDs=["t"])))
    assert result is not None
    assert (result.hops, result.tree) == (1, along)
    assert result.faults == ((fault,) if fault else ())


def test_a_message_without_an_author_has_no_source() -> None:
    assert source_id(b"") is None
    assert source_id(peer_id(2)) == sha256(peer_id(2)).digest()[:8]
