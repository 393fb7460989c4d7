package pieces

import (
	"crypto/sha256"
	"math/bits"
)

// The Merkle tree over the pieces of a message: RFC 6962, section 2.1, with SHA-256.

type hash [sha256.Size]byte

func leafHash(data []byte) hash {
	digest := sha256.New()
	digest.Write([]byte{0})
	digest.Write(data)
	return hash(digest.Sum(nil))
}

func nodeHash(left, right hash) hash {
	both := append(append([]byte{1}, left[:]...), right[:]...)
	return sha256.Sum256(both)
}

// split is the largest power of two below `count`.
func split(count int) int { return 1 << (bits.Len(uint(count-1)) - 1) }

// merkle is the root over at least one leaf, and for each leaf its proof: the hashes beside its way up,
// the lowest first.
func merkle(leaves []hash) (hash, [][]byte) {
	if len(leaves) == 1 {
		return leaves[0], [][]byte{nil}
	}
	middle := split(len(leaves))
	left, proofs := merkle(leaves[:middle])
	right, others := merkle(leaves[middle:])
	for i := range proofs {
		proofs[i] = append(proofs[i], right[:]...)
	}
	for _, proof := range others {
		proofs = append(proofs, append(proof, left[:]...))
	}
	return nodeHash(left, right), proofs
}

// holds tells whether the proof shows that `leaf` is the hash of one of `count` pieces below the root.
func holds(root []byte, count, index int, leaf hash, proof []byte) bool {
	if index < 0 || index >= count {
		return false
	}
	onRight := []bool{} // from the top down
	for count > 1 {
		middle := split(count)
		onRight = append(onRight, index >= middle)
		if index >= middle {
			index, count = index-middle, count-middle
		} else {
			count = middle
		}
	}
	if len(proof) != len(onRight)*sha256.Size {
		return false
	}
	node := leaf
	for i := len(onRight) - 1; i >= 0; i-- {
		other := hash(proof[:sha256.Size])
		proof = proof[sha256.Size:]
		if onRight[i] {
			node = nodeHash(other, node)
		} else {
			node = nodeHash(node, other)
		}
	}
	return string(node[:]) == string(root)
}
