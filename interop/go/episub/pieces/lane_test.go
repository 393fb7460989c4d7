package pieces

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func waitingPiece(message string, index, size int) *pb.Piece {
	return &pb.Piece{Id: []byte(message), Index: proto.Uint32(uint32(index)), Data: make([]byte, size)}
}

func taken(lane *Lane) []string {
	found := []string{}
	for !lane.Empty() {
		topic, piece := lane.Next()
		found = append(found, fmt.Sprint(topic, string(piece.Id), piece.GetIndex()))
	}
	return found
}

func TestMessagesTakeTurnsInALane(t *testing.T) {
	lane := &Lane{}
	for _, index := range []int{3, 1, 3} {
		lane.Put("t", waitingPiece("a", index, 10))
	}
	lane.Put("t", waitingPiece("b", 0, 10))
	lane.Put("t", waitingPiece("c", 1, 10))
	lane.Put("t", waitingPiece("c", 2, 10))
	lane.Put("u", waitingPiece("c", 5, 10))
	lane.Forget("t", "c")
	if got := taken(lane); !slices.Equal(got, []string{"ta3", "tb0", "uc5", "ta1"}) {
		t.Errorf("%v", got)
	}
	lane.Put("t", waitingPiece("a", 0, 10))
	lane.Put("t", waitingPiece("b", 0, 10))
	lane.Put("u", waitingPiece("a", 0, 10))
	lane.ForgetAll("t")
	if got := taken(lane); !slices.Equal(got, []string{"ua0"}) || lane.size != 0 {
		t.Errorf("%v, and %d bytes are left", got, lane.size)
	}
}

func TestALaneIsBounded(t *testing.T) {
	many, large := &Lane{}, &Lane{}
	for i := range 2 * maxTurns {
		many.Put("t", waitingPiece(fmt.Sprint(i), 0, 1))
	}
	if len(many.turns) != maxTurns {
		t.Errorf("%d messages wait", len(many.turns))
	}
	data := make([]byte, largestPiece)
	for i := range 2 * maxLaneBytes / largestPiece {
		piece := waitingPiece(fmt.Sprint(i/maxPieces), i%maxPieces, 0)
		piece.Data = data
		large.Put("t", piece)
	}
	if large.size > maxLaneBytes || large.size < maxLaneBytes-2*largestPiece {
		t.Errorf("%d bytes wait", large.size)
	}
}

// A neighbour that reads slowly gets what it asked for, whatever becomes of the message here.
func TestWhatWaitsForAPeerOutlivesItsMessage(t *testing.T) {
	n := ids(t, 1)
	b, w := newTable(t, n...), newWriter(t, "author")
	c := w.cut(100_000)
	b.Publish(c)
	wants := graftOf(c, c.preamble.everything())
	wants.Source = nil
	b.receive(n[0], wants)
	for range 3 {
		b.Publish(w.cut(MaxSize - 1000))
	}
	if b.Has(c.preamble.id) {
		t.Fatal("it is still kept")
	}
	for index := range c.pieces {
		if _, piece := b.lanes[n[0]].Next(); piece != c.pieces[index] {
			t.Fatalf("%d in place of %d", piece.GetIndex(), index)
		}
	}
}

func TestNothingWaitsForOneThatIsNoNeighbour(t *testing.T) {
	n := ids(t, 2)
	b, c := newTable(t, n...), newWriter(t, "author").cut(100_000)
	b.Publish(c)
	for _, id := range n {
		if b.receive(id, graftOf(c, c.preamble.everything())); b.lanes[id].Empty() {
			t.Fatal("nothing waits")
		}
	}
	if b.Down(n[0]); b.lanes[n[0]] != nil || b.lanes[n[1]].Empty() {
		t.Error("when its link ends")
	}
	if b.Clear(); b.lanes[n[1]] != nil {
		t.Error("when the topic is left")
	}
}
