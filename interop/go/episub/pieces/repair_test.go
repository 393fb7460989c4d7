package pieces

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// graftOf asks for a place, and for these pieces of a message.
func graftOf(c *Cut, missing Mask) *pb.PieceGraft {
	return &pb.PieceGraft{Source: []byte(c.preamble.source), Wants: []*pb.PieceWant{
		{Id: c.preamble.wire.Id, Missing: missing.bytes()},
	}}
}

func TestAPieceThatWasOvertakenIsAskedForOnce(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	for _, index := range []int{0, 1, 3} {
		b.receive(n[0], c.pieces[index])
	}
	if !b.asked(n[0]).empty() {
		t.Errorf("by one piece it is out of turn: %v", b.asked(n[0]).Indices())
	}
	b.receive(n[0], c.pieces[4])
	if !slices.Equal(b.asked(n[0]).Indices(), []int{2}) {
		t.Errorf("asked for %v", b.asked(n[0]).Indices())
	}
	b.forgetSent()
	b.receive(n[0], c.pieces[7])
	if !slices.Equal(b.asked(n[0]).Indices(), []int{5}) {
		t.Errorf("then for %v", b.asked(n[0]).Indices())
	}
}

func TestWhatIsOnItsWayIsNotSentAgain(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	b.receive(n[1], graftOf(c, c.preamble.everything()))
	for _, index := range []int{0, 5, 2} { // the child misses 2 as we did
		b.receive(n[0], c.pieces[index])
	}
	b.forgetSent()
	wants := graftOf(c, one(2))
	wants.Source = nil
	b.receive(n[1], wants)
	if len(b.pushed[n[1]]) > 0 {
		t.Errorf("sent again: %v", b.pushed[n[1]])
	}
	b.run(onItsWay)
	b.receive(n[1], wants)
	if !slices.Equal(b.pushed[n[1]], []int{2}) {
		t.Errorf("it was lost, and is sent: %v", b.pushed[n[1]])
	}
}

func TestANewChildGetsWhatItCouldNotKnowOf(t *testing.T) {
	for wait, want := range map[time.Duration]int{0: 3, recent: 0} {
		n := ids(t, 1)
		b, c := newTable(t, n...), newWriter(t, "author").cut(20_000)
		b.Publish(c)
		b.run(wait)
		b.forgetSent()
		b.receive(n[0], &pb.PieceGraft{Source: []byte(c.preamble.source)})
		if len(b.pushed[n[0]]) != want || len(b.sent[n[0]]) != 1+min(want, 1) {
			t.Errorf("after %v: %v, %v", wait, b.pushed[n[0]], b.sent[n[0]])
		}
	}
}

func TestNoPlaceBelowOurselvesIsTaken(t *testing.T) {
	n := ids(t, 3)
	b, c := childOf(t, n...)
	tr := b.trees.get(c.preamble.source)
	b.receive(n[1], graftOf(c, Mask{}))
	b.Receive(n[2], offerOf(place{tr.source, tr.rank - 1}))
	b.Down(n[0])
	if tr.asking != n[2] || !tr.children.has(n[1]) {
		t.Fatal("the nearer one isn't asked")
	}
	b.Receive(n[2], offering(true, place{tr.source, tr.rank})) // it has moved since
	if _, left := b.places(n[2]); left != 1 || tr.parent == n[2] {
		t.Error("a circle")
	}
}

func TestOfSeveralNeighboursEachIsAskedForOtherPieces(t *testing.T) {
	n := ids(t, 4)
	b, c := newTable(t, n...), newWriter(t, "author").cut(3_000_000)
	all := c.preamble.everything()
	for _, id := range n {
		b.receive(id, announced(c, all))
		refusal := &pb.PiecePrune{Source: []byte(c.preamble.source)}
		b.receive(id, refusal)
	}
	b.run(firstPatience)
	var asked Mask
	for _, id := range n {
		mask := b.asked(id)
		if len(mask.Indices()) > piecesAtOnce || !mask.and(asked).empty() {
			t.Errorf("%v, and others %v", mask.Indices(), asked.Indices())
		}
		asked = asked.or(mask)
	}
	if asked != all {
		t.Errorf("%d of %d are asked for", len(asked.Indices()), c.preamble.count())
	}
}

func TestAParentThatBringsNothingIsLeft(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	for _, piece := range c.pieces {
		b.receive(n[0], piece)
	}
	b.run(keptFor)
	second := newWriter(t, "author").cut(100_000)
	b.receive(n[1], announced(second, second.preamble.everything()))
	b.forgetSent()
	b.run(5 * time.Second)
	tr := b.trees.get(c.preamble.source)
	if _, left := b.places(n[0]); left != 1 || tr.parent == n[0] {
		t.Errorf("%v", b.sent[n[0]])
	}
	if _, failed := tr.barred[n[0]]; !failed {
		t.Error("and isn't asked for a while")
	}
	for _, piece := range second.pieces {
		b.receive(n[1], proto.Clone(piece).(*pb.Piece))
	}
	if len(b.whole) != 2 {
		t.Error("the message hasn't come")
	}
}

func TestOneThatKnowsOfAMessageFromUsIsAskedForIt(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	bad := proto.Clone(c.pieces[0]).(*pb.Piece)
	bad.Data[0] ^= 1
	b.receive(n[0], bad)
	b.forgetSent()
	b.run(firstPatience)
	if b.asked(n[1]) != c.preamble.everything() {
		t.Fatalf("asked for %v", b.asked(n[1]).Indices())
	}
	for _, piece := range c.pieces {
		b.receive(n[1], piece)
	}
	if len(b.whole) != 1 {
		t.Error("the message hasn't come")
	}
}

func TestThoseThatWaitAreAskedAtABoundedPace(t *testing.T) {
	n := ids(t, 1)
	b, c := newTable(t, n...), newWriter(t, "author").cut(100_000)
	b.receive(n[0], announced(c, Mask{}))
	asks := 0
	for len(b.transfers.unfinished) > 0 {
		b.forgetSent()
		b.run(time.Millisecond)
		if !b.asked(n[0]).empty() {
			asks++
			b.receive(n[0], announced(c, Mask{})) // it waits itself
		}
	}
	if most := int(emptyAfter / leastPatience); asks < 3 || asks > most {
		t.Errorf("asked %d times, of %d", asks, most)
	}
}

func TestThoseThatAnnouncedNothingHoldUpNoneThatDid(t *testing.T) {
	n := ids(t, 5)
	b, c := newTable(t, n...), newWriter(t, "author").cut(100_000)
	b.receive(n[0], announced(c, Mask{}))
	for range 2000 {
		b.forgetSent()
		b.run(time.Millisecond)
		for _, silent := range n[1:] {
			if !b.asked(silent).empty() {
				t.Fatal("one that may never answer is asked")
			}
		}
		if !b.asked(n[0]).empty() {
			b.receive(n[0], announced(c, Mask{})) // it waits itself
		}
	}
}
