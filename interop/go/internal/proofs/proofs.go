// Package proofs makes and checks the proofs of ROOT's rounds: the values of one-way chains, told backwards
// (TESLA, RFC 4082).
package proofs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/libp2p/go-libp2p/core/crypto"
)

const (
	Size      = 8
	Rounds    = 1 << 14 // of one chain: rounds are counted modulo this
	mostAhead = 120     // seconds that a tree stands after its last ROOT
)

// Secret is what a node's proofs are made from: the same after a restart.
func Secret(key crypto.PrivKey) string {
	raw, err := key.Raw()
	if err != nil {
		panic(err) // no kind of key that these programs make
	}
	sum := sha256.Sum256(append([]byte("episub-rounds"), raw...))
	return string(sum[:])
}

// Earlier is the proof of the round that is so many before that of proof.
func Earlier(proof []byte, rounds uint64) []byte {
	for range rounds {
		sum := sha256.Sum256(proof)
		proof = sum[:Size]
	}
	return proof
}

// Later tells by its proof whether a round of a source comes after one that is known. The next chain is
// believed, since nothing leads there.
func Later(known uint64, knownProof []byte, round uint64, proof []byte) bool {
	ahead := (round + Rounds - known) % Rounds
	if ahead == 0 || ahead > mostAhead {
		return false
	}
	return round < known || bytes.Equal(Earlier(proof, ahead), knownProof)
}

// Own is the proof of one of our own rounds, which is not counted modulo Rounds here.
func Own(secret string, round uint64) []byte {
	end := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(secret), round/Rounds))
	return Earlier(end[:Size], Rounds-1-round%Rounds)
}
