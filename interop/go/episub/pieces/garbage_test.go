package pieces

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func TestANodeIsInsideOfSomeTreesOnly(t *testing.T) {
	now := time.Unix(1000, 0)
	var all trees
	for i := range 4 {
		tr := all.use(fmt.Sprint(i), now)
		tr.parent = peer.ID("parent")
	}
	for i := range 2 { // five children at most in four trees
		all[i].children = peers{"a", "b"}
	}
	if !all.hasRoom(all[2]) || all.hasRoom(all[0]) {
		t.Error("four have a place, and the tree is full")
	}
	if all[2].children = (peers{"a"}); all.hasRoom(all[3]) {
		t.Error("five have a place")
	}
	if all[3].own = true; !all.hasRoom(all[3]) {
		t.Error("our own tree")
	}
}

// garbage draws what neighbours may send: pieces, announcements and places of known and of made-up
// messages, cut off and altered.
type garbage struct {
	*rand.Rand
	cuts []*Cut
}

func (g garbage) bytes(most int) []byte {
	raw := make([]byte, g.IntN(most))
	for i := range raw {
		raw[i] = byte(g.IntN(256))
	}
	return raw
}

func (g garbage) source(c *Cut) []byte {
	if g.IntN(4) == 0 {
		return g.bytes(12)
	}
	return []byte(c.preamble.source)
}

func (g garbage) draw() *pb.Control {
	c := g.cuts[g.IntN(len(g.cuts))]
	id := c.preamble.wire.Id
	if g.IntN(8) == 0 {
		id = g.bytes(2 * maxMessageID)
	}
	switch g.IntN(6) {
	case 0:
		return offering(g.IntN(2) == 0, place{string(g.source(c)), g.IntN(2 * maxRank)})
	case 1:
		return controlOf(&pb.PieceGraft{Source: g.source(c), Wants: []*pb.PieceWant{{Id: id, Missing: g.bytes(80)}}})
	case 2:
		return controlOf(&pb.PieceGraft{Wants: []*pb.PieceWant{{}, {Id: id, Missing: g.bytes(20)}}})
	case 3:
		return controlOf(&pb.PiecePrune{Source: g.source(c), Instead: [][]byte{g.bytes(40)}})
	case 4:
		announce := announced(c, first(g.IntN(20)))
		announce.Hops = proto.Uint32(uint32(g.IntN(70)))
		if g.IntN(8) == 0 {
			announce.Preamble = &pb.Preamble{Id: id, Size: proto.Uint32(g.Uint32()), PieceSize: proto.Uint32(g.Uint32())}
		}
		return controlOf(announce)
	}
	piece := proto.Clone(c.pieces[g.IntN(len(c.pieces))]).(*pb.Piece)
	if g.IntN(8) == 0 {
		piece.Id = id
		piece.Index = proto.Uint32(uint32(g.IntN(2 * maxPieces)))
	}
	return controlOf(piece)
}

func TestGarbageFillsAndBreaksNothing(t *testing.T) {
	n := ids(t, 6)
	b := newTable(t, n...)
	g := garbage{Rand: rand.New(rand.NewPCG(1, 2))}
	for i := range 12 {
		w := newWriter(t, fmt.Sprint("author", i%4))
		g.cuts = append(g.cuts, w.cut(20_000), w.cut(100_000))
	}
	for i := range 30_000 {
		from := n[g.IntN(len(n))]
		switch {
		case i%1000 == 0:
			b.Down(from)
			b.Up(from)
		case i%5000 == 1:
			b.Publish(g.cuts[0])
		}
		b.Receive(from, g.draw())
		b.run(time.Duration(g.IntN(10)) * time.Millisecond)
		if i%100 == 0 {
			b.forgetSent()
		}
		known, kept := len(b.transfers.known), len(b.transfers.whole)
		if len(b.transfers.unfinished) > maxUnfinished || known != kept+len(b.transfers.unfinished) || len(b.trees) > maxTrees {
			t.Fatalf("%d known, %d kept, %d trees", known, kept, len(b.trees))
		}
		for _, tr := range b.trees {
			if tr.taken() > maxChildren+1 || len(tr.offers) > len(n) || (tr.parent != "" && tr.children.has(tr.parent)) {
				t.Fatalf("%+v", tr)
			}
		}
	}
	if len(b.whole) == 0 || len(b.timers) > 1000 {
		t.Errorf("%d messages came, %d timers wait", len(b.whole), len(b.timers))
	}
	b.run(time.Hour)
	if len(b.transfers.known) > 0 || len(b.timers) > 0 {
		t.Errorf("%d are kept for ever, %d timers", len(b.transfers.known), len(b.timers))
	}
}
