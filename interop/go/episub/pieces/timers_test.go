package pieces

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// That there is one timer at a time is checked wherever one is started (table.After).

func TestTimersDoNotPileUp(t *testing.T) {
	n := ids(t, 3)
	b, w := newTable(t, n...), newWriter(t, "author")
	for range 20 {
		c := w.cut(100_000)
		before := b.started
		b.receive(n[0], announced(c, c.preamble.everything()))
		at := place{c.preamble.source, 0}
		b.Receive(n[0], offering(true, at))
		for _, piece := range c.pieces {
			b.run(10 * time.Millisecond)
			b.receive(n[0], proto.Clone(piece).(*pb.Piece))
		}
		b.run(2 * time.Second)
		if started := b.started - before; started > 3 {
			t.Errorf("%d timers for a message", started)
		}
	}
	if len(b.whole) != 20 || len(b.timers) != 1 {
		t.Errorf("%d messages, %d timers", len(b.whole), len(b.timers))
	}
	b.run(keptFor)
	if len(b.timers) != 0 || len(b.transfers.known) != 0 {
		t.Errorf("%d timers for %d messages that are kept", len(b.timers), len(b.transfers.known))
	}
}

func TestNoTimerIsLeftOfAMessageThatIsLost(t *testing.T) {
	n := ids(t, 3)
	b, c := childOf(t, n...)
	b.receive(n[0], c.pieces[0])
	b.Receive(n[0], offerOf())
	b.run(giveUpAfter + mostPatience)
	if b.refused[messageLost] != 1 {
		t.Fatalf("%v", b.refused)
	}
	b.run(2 * retryTime) // its place in the tree is looked for
	if len(b.timers) != 0 {
		t.Errorf("%d timers", len(b.timers))
	}
}

func TestNoTimerIsLeftOfATopicThatIsLeft(t *testing.T) {
	b, _ := childOf(t, ids(t, 2)...)
	if len(b.timers) != 1 {
		t.Fatal("nothing is waited for")
	}
	b.Clear()
	if len(b.timers) != 0 {
		t.Errorf("%d timers", len(b.timers))
	}
}
