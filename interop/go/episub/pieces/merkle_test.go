package pieces

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"
)

// By number of leaves; google/certificate-transparency, merkle_tree_test.cc.
var certificateTransparency = map[int]string{
	1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
	2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
	3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
	5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
	7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
	8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}

func TestRootsAreThoseOfCertificateTransparency(t *testing.T) {
	leaves := []hash{}
	for _, text := range []string{
		"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
	} {
		data, _ := hex.DecodeString(text)
		leaves = append(leaves, leafHash(data))
	}
	for count, want := range certificateTransparency {
		if root, _ := merkle(leaves[:count]); hex.EncodeToString(root[:]) != want {
			t.Errorf("%d leaves: %x", count, root)
		}
	}
}

func TestEachProofHoldsForItsOwnLeafAlone(t *testing.T) {
	for _, count := range []int{1, 2, 3, 4, 5, 7, 8, 31, 33, 64, 70, maxPieces} {
		leaves := []hash{}
		for i := range count {
			leaves = append(leaves, leafHash([]byte{byte(i), byte(i >> 8)}))
		}
		root, proofs := merkle(leaves)
		for index, proof := range proofs {
			other := (index + 1 + rand.IntN(count)) % (count + 1)
			switch {
			case !holds(root[:], count, index, leaves[index], proof):
				t.Errorf("%d of %d", index, count)
			case len(proof) > maxHashes*32:
				t.Errorf("%d bytes", len(proof))
			case other != index && holds(root[:], count, other, leaves[index], proof):
				t.Errorf("%d of %d for %d", index, count, other)
			case holds(root[:], count, index, leafHash(nil), proof):
				t.Errorf("%d of %d: another leaf", index, count)
			case holds(root[:], count, index, leaves[index], append(slices.Clone(proof), make([]byte, 32)...)):
				t.Errorf("%d of %d: a hash too many", index, count)
			case len(proof) > 0 && holds(root[:], count, index, leaves[index], proof[32:]):
				t.Errorf("%d of %d: a hash too few", index, count)
			}
		}
		if holds(root[:], count, -1, leaves[0], proofs[0]) {
			t.Error("a negative index")
		}
	}
}
