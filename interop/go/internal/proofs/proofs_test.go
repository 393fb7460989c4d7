package proofs

import "testing"

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
