package pieces

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func TestPreamblesThatNobodySignedAreRefused(t *testing.T) {
	n := ids(t, 3)
	b, w := newTable(t, n...), newWriter(t, "author")
	honest := w.cut(20_000)
	forged := &Cut{newPreamble(proto.Clone(honest.preamble.wire).(*pb.Preamble)), nil}
	forged.preamble.wire.Root[0] ^= 1
	b.receive(n[0], announced(forged, Mask{}))
	if b.refused[preambleForged] != 1 || len(b.transfers.known) > 0 || len(b.sent[n[1]]) > 0 {
		t.Errorf("%v", b.refused)
	}
	b.receive(n[0], announced(honest, Mask{}))
	if b.refused[preambleRefused] != 1 || len(b.transfers.known) > 0 {
		t.Errorf("one that lies is believed: %v", b.refused)
	}
	b.receive(n[1], announced(honest, Mask{})) // its id isn't taken
	b.receive(n[0], announced(forged, first(1)))
	if b.refused[preambleRefused] != 2 || !b.transfers.known[honest.preamble.id].has[n[0]].empty() {
		t.Errorf("%v", b.refused)
	}
	for _, hops := range []uint32{0, maxHops + 1} {
		bad := announced(w.cut(20_000), Mask{})
		bad.Hops = &hops
		b.receive(n[1], bad)
	}
	if b.refused[badPreamble] != 2 || len(b.transfers.known) != 1 {
		t.Errorf("%v", b.refused)
	}
}

func TestAPreambleIsKnownByWhatIsSigned(t *testing.T) {
	n := ids(t, 2)
	b, c := newTable(t, n...), newWriter(t, "author").cut(20_000)
	other := announced(c, first(2))
	other.Preamble = proto.Clone(other.Preamble).(*pb.Preamble)
	other.Preamble.Key = []byte("of nobody")
	b.receive(n[0], other)
	b.receive(n[1], announced(c, first(1)))
	known := b.transfers.known[c.preamble.id]
	if known == nil || known.has[n[0]] != first(2) || known.has[n[1]] != first(1) || known.wire.Key != nil {
		t.Errorf("%v, %v", known, b.refused)
	}
}

func TestNobodyFillsTheTableOfTransfers(t *testing.T) {
	n := ids(t, 6)
	b := newTable(t, n...)
	writers := []writer{}
	for i := range 6 {
		writers = append(writers, newWriter(t, fmt.Sprint("author", i)))
	}
	for range 2 * maxOfOne {
		b.receive(n[0], announced(writers[0].cut(1000), Mask{})) // one neighbour, one author
	}
	b.receive(n[1], announced(writers[0].cut(1000), Mask{}))
	b.receive(n[0], announced(writers[1].cut(1000), Mask{}))
	if len(b.transfers.unfinished) != maxOfOne {
		t.Errorf("%d of one author and one neighbour", len(b.transfers.unfinished))
	}
	for i, w := range writers[1:] {
		for range maxOfOne {
			b.receive(n[i+1], announced(w.cut(1000), Mask{}))
		}
	}
	if len(b.transfers.unfinished) != maxUnfinished {
		t.Errorf("%d in all", len(b.transfers.unfinished))
	}
	b.run(emptyAfter + mostPatience)
	if len(b.transfers.known) != 0 || b.refused[messageLost] != maxUnfinished {
		t.Errorf("%d are waited for yet, %v", len(b.transfers.known), b.refused)
	}
}

func TestAnnouncedBytesAreBounded(t *testing.T) {
	n := ids(t, 5)
	b := newTable(t, n...)
	large := func(name string, from int) int {
		b.receive(n[from], announced(newWriter(t, name).largest(), Mask{}))
		return len(b.transfers.unfinished)
	}
	for i, want := range []int{1, 2, 2} { // half of it is one author's, or one neighbour's
		if got := large("author", 0); got != want {
			t.Errorf("%d: %d", i, got)
		}
	}
	for i, want := range []int{3, 4, 4} {
		if got := large(fmt.Sprint("other", i), i+1); got != want {
			t.Errorf("other %d: %d", i, got)
		}
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	b, w := newTable(t), newWriter(t, "author")
	for range 4 {
		b.Publish(w.cut(MaxSize - 1000))
	}
	if len(b.transfers.whole) != 2 || b.transfers.keptBytes > maxKeptBytes {
		t.Errorf("%d messages, %d bytes", len(b.transfers.whole), b.transfers.keptBytes)
	}
	for i := range maxForgotten + 100 {
		b.transfers.remember(fmt.Sprint(i))
	}
	if len(b.transfers.over) != maxForgotten || len(b.transfers.overOrder) != maxForgotten {
		t.Errorf("%d ids", len(b.transfers.over))
	}
	for range maxKept + 10 {
		b.Publish(w.cut(100))
	}
	if len(b.transfers.whole) != maxKept || len(b.transfers.known) != maxKept {
		t.Errorf("%d messages", len(b.transfers.whole))
	}
}

func TestTreesOfMadeUpSourcesAreBounded(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	for i := range 1000 {
		b.Receive(n[1], offerOf(place{fmt.Sprintf("%08d", i), 0}))
	}
	if len(b.trees) != maxTrees || b.trees.get(c.preamble.source).parent != n[0] {
		t.Errorf("%d trees", len(b.trees))
	}
	many := []place{}
	for i := range 1000 {
		many = append(many, place{fmt.Sprintf("x%07d", i), 0})
	}
	b.forgetSent()
	b.Receive(n[1], offerOf(many...))
	if asked, _ := b.places(n[1]); asked > maxOffers {
		t.Errorf("%d offers were read", asked)
	}
	b.Receive(n[1], offerOf(place{"short", 0}, place{"........", maxRank}))
	if b.trees.get("short") != nil || b.trees.get("........") != nil {
		t.Error("no such place can be")
	}
}

func TestMadeUpTreesReplaceNoneThatCarries(t *testing.T) {
	n := ids(t, 3)
	b, c := childOf(t, n...)
	b.receive(n[0], c.pieces[0])
	own := newWriter(t, "peer").cut(100_000)
	b.Publish(own)
	for i := range 2 * maxTrees { // n[2] gives all the places that it offers
		at := place{fmt.Sprintf("%08d", i), 0}
		b.Receive(n[2], offerOf(at))
		b.Receive(n[2], offering(true, at))
	}
	if b.trees.get(c.preamble.source) == nil || b.trees.get(own.preamble.source) == nil || len(b.trees) != maxTrees {
		t.Errorf("%d trees, %v", len(b.trees), b.trees.get(own.preamble.source))
	}
	for i := range 2 * maxTrees { // and pieces come along its trees
		made := b.trees.use(fmt.Sprintf("x%07d", i), b.now)
		made.parent, made.carried = n[2], true
	}
	if tr := b.trees.get(own.preamble.source); tr == nil || !tr.own {
		t.Error("our own tree is gone")
	}
}

func TestASlowDripIsGivenUp(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	for _, piece := range c.pieces[:6] {
		b.run(5 * time.Second)
		b.receive(n[0], piece)
		b.Receive(n[0], offering(true, place{c.preamble.source, 0})) // it stays the parent
	}
	if b.refused[messageLost] != 1 || len(b.transfers.unfinished) > 0 {
		t.Errorf("after 30 s: %v", b.refused)
	}
}

func TestWaitingForAPlaceEnds(t *testing.T) {
	n := ids(t, 5)
	b, c := newTable(t, n...), newWriter(t, "author").cut(20_000)
	b.receive(n[0], announced(c, Mask{}))
	if asked, _ := b.places(n[0]); asked != 1 {
		t.Fatal("the one that announced isn't asked")
	}
	for _, id := range n[1:] {
		b.receive(id, &pb.PieceGraft{Source: []byte(c.preamble.source)})
	}
	tr := b.trees.get(c.preamble.source)
	if _, refused := b.places(n[4]); len(tr.waiting) != maxChildren+1 || refused != 1 {
		t.Errorf("%d wait", len(tr.waiting))
	}
	b.forgetSent()
	b.run(waitTime)
	for _, id := range n[:4] {
		if _, left := b.places(id); left != 1 {
			t.Errorf("%v", b.sent[id])
		}
	}
	if len(tr.waiting) != 0 || tr.asking != "" || tr.askAt.IsZero() {
		t.Error("nobody has a place, and that is asked again later")
	}
	b.Receive(n[1], offerOf(place{c.preamble.source, 5}))
	if tr.asking != n[1] {
		t.Error("an offer is taken up at once")
	}
	b.Down(n[1])
	if tr.asking != "" || len(tr.offers) != 1 || b.Takes(n[1]) {
		t.Error("one that is gone isn't waited for")
	}
}

func TestANewNeighbourIsAnnouncedWhatItMissed(t *testing.T) {
	n := ids(t, 2)
	b, w := newTable(t, n[0]), newWriter(t, "author")
	old, fresh := w.cut(20_000), w.cut(20_000)
	b.Publish(old)
	b.receive(n[0], announced(old, old.preamble.everything())) // somebody has it
	b.run(recent + time.Second)
	b.Up(n[1])
	b.Publish(fresh)
	if b.Takes(n[1]) || len(b.sent[n[1]]) != 1 || b.sent[n[1]][0].GetPieceOffer() == nil {
		t.Fatalf("it hasn't said that it takes pieces: %v", b.sent[n[1]])
	}
	b.Receive(n[1], offerOf())
	if got := b.sent[n[1]]; len(got) != 2 || string(got[1].GetPieceAnnounce().GetPreamble().GetId()) != fresh.preamble.id {
		t.Errorf("%v", got)
	}
}
