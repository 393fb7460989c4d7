"""The Merkle tree: RFC 6962's, with the vectors that its implementations share."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episub_router.protocol.pieces.cutting import holds, leaf_hash, root_and_proofs

LEAVES = [
    bytes.fromhex(leaf)
    for leaf in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""By number of leaves, from the first; google/certificate-transparency, merkle_tree_test.cc."""


@pytest.mark.parametrize("count", ROOTS)
def test_roots_are_those_of_certificate_transparency(count: int) -> None:
    root, _ = root_and_proofs([leaf_hash(leaf) for leaf in LEAVES[:count]])
    assert root.hex() == ROOTS[count]


def test_a_tree_needs_a_leaf() -> None:
    with pytest.raises(ValueError, match="leaf"):
        root_and_proofs([])


@given(count=st.integers(1, 70), data=st.data())
def test_each_proof_holds_for_its_own_leaf_alone(count: int, data: st.DataObject) -> None:
    leaves = [leaf_hash(bytes([index])) for index in range(count)]
    root, proofs = root_and_proofs(leaves)
    index = data.draw(st.integers(0, count - 1))
    proof = proofs[index]
    assert holds(root, count, index, leaves[index], proof)
    assert len(proof) <= (count - 1).bit_length()
    other = data.draw(st.integers(-1, count))
    if other != index:
        assert not holds(root, count, other, leaves[index], proof)
    assert not holds(root, count, index, sha256(leaves[index]).digest(), proof)
    assert not holds(root, count, index, leaves[index], (*proof, bytes(32)))
    if proof:
        assert not holds(root, count, index, leaves[index], proof[1:])
        changed = (bytes([proof[0][0] ^ 1]) + proof[0][1:], *proof[1:])
        assert not holds(root, count, index, leaves[index], changed)
