package main

import "testing"

func TestTheWindowAcceptsEachIDOnce(t *testing.T) {
	var w window
	for _, step := range []struct {
		seq  uint64
		want bool
	}{
		{0, false}, {1000, true}, {1000, false}, {999, true}, {873, true}, {872, false}, {873, false},
		{1128, true}, {1000, false}, {1001, true}, {1 << 63, true}, {1128, false},
	} {
		if got := w.accepts(step.seq); got != step.want {
			t.Errorf("%d: %v", step.seq, got)
		}
	}
}
