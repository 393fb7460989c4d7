package proofs

import (
	"encoding/hex"
	"testing"
)

func TestProofsLeadBackFromRoundToRound(t *testing.T) {
	known := Own("secret", 5*Rounds+1)
	for ahead := range uint64(200) {
		later := ahead > 0 && ahead <= mostAhead
		if Later(1, known, 1+ahead, Own("secret", 5*Rounds+1+ahead)) != later {
			t.Errorf("%d rounds later", ahead)
		}
		if Later(1, known, 1+ahead, Own("another", 5*Rounds+1+ahead)) {
			t.Errorf("another's round, %d later", ahead)
		}
	}
}

func TestTheNextChainIsBelieved(t *testing.T) {
	if !Later(Rounds-1, Own("secret", Rounds-1), 3, Own("secret", Rounds+3)) {
		t.Error("the chain never ends")
	}
	if Later(3, Own("secret", Rounds+3), Rounds-1, Own("secret", Rounds-1)) {
		t.Error("an old round is later")
	}
}

func TestTheSpecificationsProofs(t *testing.T) {
	known := []byte{0, 1, 2, 3, 4, 5, 6, 7}
	for rounds, proof := range map[uint64]string{1: "8a851ff82ee7048a", 120: "823c2272576f4041"} {
		if found := hex.EncodeToString(Earlier(known, rounds)); found != proof {
			t.Errorf("%d rounds before: %s", rounds, found)
		}
	}
}
