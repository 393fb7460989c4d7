package pieces

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// table is a machine with its neighbours, in virtual time.
type table struct {
	*Machine
	t       *testing.T
	now     time.Time
	timers  []timer
	started int // timers
	sent    map[peer.ID][]*pb.Control
	pushed  map[peer.ID][]int
	lanes   map[peer.ID]*Lane
	whole   []*pb.Message
	refused map[string]int
}

type timer struct {
	at time.Time
	f  func()
	id int
}

func newTable(t *testing.T, neighbors ...peer.ID) *table {
	b := &table{t: t, now: time.Unix(1000, 0), refused: map[string]int{}, lanes: map[peer.ID]*Lane{}}
	b.Machine = New(b, "t", payload.StrictSign)
	b.forgetSent()
	for _, id := range neighbors {
		b.Up(id)
		b.Receive(id, offerOf())
	}
	b.forgetSent()
	return b
}

func (b *table) Now() time.Time               { return b.now }
func (b *table) RTT(peer.ID) time.Duration    { return 100 * time.Millisecond }
func (b *table) Forget(id peer.ID, _ string)  { b.pushed[id] = nil }
func (b *table) ForgetAll(id peer.ID)         { b.pushed[id] = nil; delete(b.lanes, id) }
func (b *table) Refused(_ peer.ID, by string) { b.refused[by]++ }
func (b *table) After(d time.Duration, f func()) func() {
	b.started++
	id := b.started
	b.timers = append(b.timers, timer{b.now.Add(max(d, 0)), f, id})
	if len(b.timers) > 1 {
		b.t.Errorf("%d timers at a time", len(b.timers))
	}
	return func() {
		b.timers = slices.DeleteFunc(b.timers, func(t timer) bool { return t.id == id })
	}
}
func (b *table) Send(id peer.ID, control *pb.Control) { b.sent[id] = append(b.sent[id], control) }
func (b *table) Push(id peer.ID, piece *pb.Piece) {
	if b.lanes[id] == nil {
		b.lanes[id] = &Lane{}
	}
	b.lanes[id].Put("t", piece)
	b.pushed[id] = append(b.pushed[id], int(piece.GetIndex()))
}
func (b *table) Whole(_ peer.ID, message *pb.Message, _ uint32) {
	b.whole = append(b.whole, message)
}

func (b *table) forgetSent() {
	b.sent, b.pushed = map[peer.ID][]*pb.Control{}, map[peer.ID][]int{}
}

// run lets time pass.
func (b *table) run(d time.Duration) {
	for end := b.now.Add(d); ; {
		next := slices.IndexFunc(b.timers, func(t timer) bool { return !t.at.After(end) })
		if next < 0 {
			b.now = end
			return
		}
		for i, t := range b.timers {
			if t.at.Before(b.timers[next].at) {
				next = i
			}
		}
		due := b.timers[next]
		b.timers = slices.Delete(b.timers, next, next+1)
		b.now = due.at
		due.f()
	}
}

// asked are the pieces that a neighbour was asked for.
func (b *table) asked(id peer.ID) Mask {
	var all Mask
	for _, control := range b.sent[id] {
		if graft := control.GetPieceGraft(); graft != nil && graft.Source == nil {
			for _, w := range readWants(graft) {
				all = all.or(w.missing)
			}
		}
	}
	return all
}

// places are how often a neighbour was asked for a place, and left.
func (b *table) places(id peer.ID) (asked, left int) {
	for _, control := range b.sent[id] {
		if control.GetPieceGraft().GetSource() != nil {
			asked++
		}
		if control.GetPiecePrune() != nil {
			left++
		}
	}
	return asked, left
}

func (b *table) receive(from peer.ID, message any) {
	b.Receive(from, controlOf(message))
}

func controlOf(message any) *pb.Control {
	switch message := message.(type) {
	case *pb.Piece:
		return &pb.Control{Message: &pb.Control_Piece{Piece: message}}
	case *pb.PieceAnnounce:
		return &pb.Control{Message: &pb.Control_PieceAnnounce{PieceAnnounce: message}}
	case *pb.PieceGraft:
		return &pb.Control{Message: &pb.Control_PieceGraft{PieceGraft: message}}
	case *pb.PiecePrune:
		return &pb.Control{Message: &pb.Control_PiecePrune{PiecePrune: message}}
	}
	panic(message)
}

func offerOf(places ...place) *pb.Control { return offering(false, places...) }

func offering(accepted bool, places ...place) *pb.Control {
	message := &pb.PieceOffer{Accepted: &accepted}
	for _, p := range places {
		message.Offers = append(message.Offers, &pb.TreeOffer{
			Source: []byte(p.source), Rank: proto.Uint32(uint32(p.rank)),
		})
	}
	return &pb.Control{Message: &pb.Control_PieceOffer{PieceOffer: message}}
}

// announced is a PIECEANNOUNCE of the author's neighbour.
func announced(c *Cut, have Mask) *pb.PieceAnnounce {
	return &pb.PieceAnnounce{Preamble: c.preamble.wire, Have: have.bytes(), Hops: proto.Uint32(1)}
}

// writer is an author of large messages.
type writer struct {
	t   *testing.T
	key crypto.PrivKey
}

func newWriter(t *testing.T, name string) writer {
	seed := sha256.Sum256([]byte(name))
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return writer{t, key}
}

func (w writer) message(size int) *pb.Message {
	message, err := payload.StrictSign.New(w.key, "t", make([]byte, size))
	if err != nil {
		w.t.Fatal(err)
	}
	return message
}

func (w writer) cut(size int) *Cut {
	made, err := NewCut(w.key, payload.StrictSign, w.message(size))
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// largest is the preamble of a message of the largest size, which doesn't exist.
func (w writer) largest() *Cut {
	message := w.message(0)
	made := cut([]byte{0}, []byte(payload.StrictSign.ID(message)), message.From, message.Seqno)
	made.preamble.wire.Size = proto.Uint32(MaxSize)
	made.preamble.wire.PieceSize = proto.Uint32(largestPiece)
	if err := payload.SignPreamble(w.key, "t", made.preamble.wire); err != nil {
		w.t.Fatal(err)
	}
	return made
}

// ids are so many peers.
func ids(t *testing.T, count int) []peer.ID {
	found := []peer.ID{}
	for i := range count {
		id, err := peer.IDFromPrivateKey(newWriter(t, fmt.Sprint("peer", i)).key)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, id)
	}
	return found
}

// childOf is a machine whose first neighbour is its parent and has announced a message.
func childOf(t *testing.T, neighbors ...peer.ID) (*table, *Cut) {
	b, c := newTable(t, neighbors...), newWriter(t, "author").cut(100_000)
	at := place{c.preamble.source, 0}
	b.receive(neighbors[0], announced(c, Mask{}))
	b.Receive(neighbors[0], offerOf(at))
	b.Receive(neighbors[0], offering(true, at))
	if b.trees.get(c.preamble.source).parent != neighbors[0] {
		t.Fatal("no parent")
	}
	b.forgetSent()
	return b, c
}

func TestAMessageIsPutTogetherAndPassedOn(t *testing.T) {
	n := ids(t, 5)
	b, c := childOf(t, n...)
	source := []byte(c.preamble.source)
	for _, id := range n[1:] {
		b.receive(id, &pb.PieceGraft{Source: source, Wants: []*pb.PieceWant{
			{Id: c.preamble.wire.Id, Missing: first(c.preamble.count()).bytes()},
		}})
	}
	instead := b.sent[n[4]][0].GetPiecePrune().GetInstead() // three have the places of a short message
	if len(instead) != 3 || string(instead[0]) != string(n[1]) || string(instead[1]) != string(n[2]) {
		t.Errorf("%v", b.sent[n[4]])
	}
	for i, piece := range c.pieces {
		b.receive(n[0], piece)
		if len(b.pushed[n[1]]) != i+1 || len(b.pushed[n[2]]) != i+1 || len(b.pushed[n[4]]) > 0 {
			t.Fatalf("%d: %v", i, b.pushed)
		}
	}
	if len(b.whole) != 1 || len(b.whole[0].Data) != 100_000 {
		t.Fatalf("%d messages", len(b.whole))
	}
	b.receive(n[0], c.pieces[0])
	b.receive(n[4], c.pieces[0])
	if len(b.whole) != 1 || b.refused[pieceLate] != 2 {
		t.Errorf("again: %v", b.refused)
	}
	b.receive(n[4], &pb.PieceGraft{Wants: []*pb.PieceWant{
		{Id: c.preamble.wire.Id, Missing: one(2).or(one(400)).bytes()},
	}})
	if !slices.Equal(b.pushed[n[4]], []int{2}) {
		t.Errorf("asked for one: %v", b.pushed[n[4]])
	}
	b.run(keptFor)
	if len(b.transfers.known) > 0 || !b.transfers.over[c.preamble.id] {
		t.Error("it is kept for too long")
	}
	b.receive(n[1], announced(c, Mask{}))
	if len(b.transfers.known) > 0 {
		t.Error("it came already")
	}
}

func TestAParentThatLiesIsLeftAndAskedForNothing(t *testing.T) {
	n := ids(t, 3)
	b, c := childOf(t, n...)
	for _, id := range n[1:] {
		b.receive(id, announced(c, first(c.preamble.count())))
	}
	b.receive(n[0], c.pieces[0])
	bad := proto.Clone(c.pieces[1]).(*pb.Piece)
	bad.Data[7] ^= 1
	b.forgetSent()
	b.receive(n[0], bad)
	if asked, left := b.places(n[0]); left != 1 || asked != 0 || b.refused[pieceInvalid] != 1 {
		t.Errorf("%v, %v", b.sent[n[0]], b.refused)
	}
	if b.transfers.known[c.preamble.id].have != one(0) {
		t.Error("it is kept")
	}
	b.receive(n[0], c.pieces[1]) // from such a one nothing is taken
	b.run(15 * time.Second)
	if asked, _ := b.places(n[0]); asked > 0 || !b.asked(n[0]).empty() || b.transfers.known[c.preamble.id] == nil {
		t.Error("it is asked again")
	}
	wanted := first(c.preamble.count()).without(one(0))
	if b.asked(n[1]).or(b.asked(n[2])) != wanted {
		t.Errorf("asked of others: %v", b.asked(n[1]).or(b.asked(n[2])).Indices())
	}
	for _, piece := range c.pieces[1:] {
		b.receive(n[1], piece)
	}
	if len(b.whole) != 1 {
		t.Error("the message hasn't come")
	}
}

func TestAPieceIsTakenWhoeverSentItWhereItsProofHolds(t *testing.T) {
	n := ids(t, 2)
	b, c := childOf(t, n...)
	b.receive(n[1], c.pieces[0])
	unknown := newWriter(t, "author").cut(9000)
	for range 2 { // its preamble is asked for, once in a while
		b.receive(n[0], unknown.pieces[0])
	}
	if b.refused[unsolicited] != 2 || b.transfers.known[c.preamble.id].have != one(0) || len(b.sent[n[0]]) != 1 {
		t.Errorf("%v, %v", b.refused, b.sent[n[0]])
	}
	for _, change := range []func(*pb.Piece){
		func(p *pb.Piece) { p.Data = nil },
		func(p *pb.Piece) { p.Data = make([]byte, largestPiece+1) },
		func(p *pb.Piece) { p.Index = proto.Uint32(maxPieces) },
		func(p *pb.Piece) { p.Proof = make([]byte, 31) },
		func(p *pb.Piece) { p.Proof = make([]byte, 320) },
		func(p *pb.Piece) { p.Id = nil },
	} {
		bad := proto.Clone(c.pieces[0]).(*pb.Piece)
		change(bad)
		b.receive(n[0], bad)
	}
	beyond := proto.Clone(c.pieces[0]).(*pb.Piece)
	beyond.Index = proto.Uint32(maxPieces - 1)
	b.receive(n[0], beyond)
	if b.refused[badPiece] != 6 || b.refused[pieceInvalid] != 1 {
		t.Errorf("%v", b.refused)
	}
}

func TestWhatTheAuthorSignedWronglyIsDropped(t *testing.T) {
	n := ids(t, 1)
	w := newWriter(t, "author")
	other := w.message(9000)
	other.Seqno = []byte("another")
	for _, raw := range [][]byte{[]byte("no message at all"), marshal(t, other), marshal(t, w.message(10))} {
		b := newTable(t, n...)
		message := w.message(9000)
		c := cut(raw, []byte(payload.StrictSign.ID(message)), message.From, message.Seqno)
		if err := payload.SignPreamble(w.key, "t", c.preamble.wire); err != nil {
			t.Fatal(err)
		}
		b.receive(n[0], announced(c, first(c.preamble.count())))
		at := place{c.preamble.source, 0}
		b.Receive(n[0], offerOf(at))
		b.Receive(n[0], offering(true, at))
		for _, piece := range c.pieces {
			b.receive(n[0], piece)
		}
		if len(b.whole) > 0 || b.refused[messageMismatched] != 1 {
			t.Errorf("%v", b.refused)
		}
	}
}

func marshal(t *testing.T, message *pb.Message) []byte {
	raw, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
