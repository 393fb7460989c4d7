package main

import "testing"

func TestPiecesWaitForAllElse(t *testing.T) {
	out := newOutgoing()
	for _, queued := range []struct {
		queue chan []byte
		name  string
	}{{out.bulk, "piece"}, {out.payloads, "payload"}, {out.urgent, "control"}, {out.bulk, "last"}} {
		if !out.add(queued.queue, []byte(queued.name)) {
			t.Errorf("no room for a %s", queued.name)
		}
	}
	if out.idle() || out.add(out.bulk, nil) {
		t.Error("another piece finds room")
	}
	for _, want := range []string{"control", "payload", "piece"} {
		if got := string(out.next()); got != want {
			t.Errorf("%s in place of %s", got, want)
		}
	}
	if !out.idle() || string(out.next()) != "last" {
		t.Error("no room for another piece")
	}
	if out.end(); out.next() != nil {
		t.Error("it has ended")
	}
}
