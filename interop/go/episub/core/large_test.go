package core

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"episub-interop/episub/pieces"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

const largeSize = 100_000

// takePieces has nodes take pieces before anything happens.
func takePieces(nodes []*simNode) {
	for _, node := range nodes {
		node.topic.TakePieces()
	}
}

// overlayWithPieces is an overlay at rest, of nodes that all take pieces.
func overlayWithPieces(t *testing.T, size int) *network {
	n := newNetwork(t, size)
	takePieces(n.nodes)
	n.run(120 * time.Second)
	return n
}

// publishLarge publishes a message in pieces, and returns its data.
func (n *network) publishLarge(author *simNode, fill byte) string {
	data := bytes.Repeat([]byte{fill}, largeSize)
	message, err := payload.StrictSign.New(author.key, "t", data)
	if err != nil {
		n.t.Fatal(err)
	}
	cut, err := pieces.NewCut(author.key, payload.StrictSign, message)
	if err != nil {
		n.t.Fatal(err)
	}
	author.got[string(data)]++
	author.topic.PublishCut(message, cut)
	return string(data)
}

// piecesOf is how many pieces a message of that size has.
const piecesOf = largeSize/8192 + 1

func TestAllGetALargeMessageAndEachPieceOnce(t *testing.T) {
	n := overlayWithPieces(t, 30)
	for round := range 3 {
		n.sent["piece"] = 0
		data := n.publishLarge(n.nodes[3], byte(round))
		n.run(10 * time.Second)
		n.check(n.nodes, []string{data})
		if n.sent["piece"] != 29*piecesOf || n.pushes > 0 {
			t.Errorf("%d pieces, %d whole", n.sent["piece"], n.pushes)
		}
	}
}

func TestParentsThatDieCostNoMessage(t *testing.T) {
	n := overlayWithPieces(t, 30)
	n.publishLarge(n.nodes[3], 0)
	n.run(10 * time.Second)
	passed, victims := map[*simNode]int{}, 4
	n.altered = func(from *simNode, control *pb.Control) *pb.Control {
		if passed[from]++; control.GetPiece() != nil && from != n.nodes[3] && passed[from] > 5 && victims > 0 {
			victims--
			n.after(0, func() { n.kill(from) })
			passed[from] = -1 << 20
		}
		return control
	}
	data := n.publishLarge(n.nodes[3], 1)
	n.run(30 * time.Second)
	if n.check(n.alive(), []string{data}); len(n.alive()) != 26 {
		t.Errorf("%d are alive", len(n.alive()))
	}
}

func TestLostPiecesAreFetched(t *testing.T) {
	n := overlayWithPieces(t, 20)
	n.loss = 0.1
	sent := []string{}
	for i := range 3 {
		sent = append(sent, n.publishLarge(n.nodes[i], byte(i)))
	}
	n.run(40 * time.Second)
	n.loss = 0
	n.run(20 * time.Second)
	n.check(n.nodes, sent)
}

func TestThoseThatTakeNoPiecesGetAndGiveWholeMessages(t *testing.T) {
	n := newNetwork(t, 20)
	takePieces(n.nodes[:17])
	n.run(60 * time.Second)
	sent := []string{n.publishLarge(n.nodes[3], 0)}
	n.run(10 * time.Second)
	sent = append(sent, n.publishLarge(n.nodes[19], 1)) // takes none, so it goes whole
	n.run(10 * time.Second)
	n.check(n.nodes, sent)
	if n.sent["piece"] != 16*piecesOf {
		t.Errorf("%d pieces", n.sent["piece"])
	}
}

func TestWhatIsForgedIsRefusedAndTheMessageArrives(t *testing.T) {
	n := overlayWithPieces(t, 20)
	n.publishLarge(n.nodes[3], 0)
	n.run(10 * time.Second)
	liars := n.nodes[5:9]
	lie := byte(0)
	n.altered = func(from *simNode, control *pb.Control) *pb.Control {
		if !slices.Contains(liars, from) {
			return control
		}
		lie++
		forged := proto.Clone(control).(*pb.Control)
		switch piece := forged.GetPiece(); {
		case piece != nil && lie%3 == 0:
			piece.Data[0] ^= 1
		case piece != nil && lie%3 == 1:
			piece.Data = append(piece.Data, 0)
		case piece != nil:
			piece.Proof = nil
		case forged.GetPieceAnnounce() != nil:
			forged.GetPieceAnnounce().Preamble.Root[0] ^= 1
		}
		return forged
	}
	data := n.publishLarge(n.nodes[3], 1)
	n.run(30 * time.Second)
	n.check(n.nodes, []string{data})
	for _, reason := range []string{"piece-invalid", "preamble-refused"} {
		if n.refused[reason] == 0 {
			t.Errorf("no %s: %v", reason, n.refused)
		}
	}
}

func TestANewcomerGetsWhatIsUnderWay(t *testing.T) {
	n := overlayWithPieces(t, 15)
	data := n.publishLarge(n.nodes[3], 0)
	n.start(99).topic.TakePieces()
	n.run(20 * time.Second)
	n.check(n.nodes, []string{data})
}

func TestWhatNobodyHasIsGivenUp(t *testing.T) {
	n := overlayWithPieces(t, 10)
	announced := 0
	n.altered = func(from *simNode, control *pb.Control) *pb.Control {
		if control.GetPiece() != nil { // none of them arrives
			return &pb.Control{Message: &pb.Control_PieceOffer{PieceOffer: &pb.PieceOffer{}}}
		}
		if control.GetPieceAnnounce() != nil {
			announced++
		}
		return control
	}
	n.publishLarge(n.nodes[3], 0)
	n.run(60 * time.Second)
	if n.refused["message-lost"] != 9 || announced == 0 {
		t.Errorf("%v", n.refused)
	}
	before := len(n.queue)
	n.altered = func(_ *simNode, control *pb.Control) *pb.Control { return control }
	n.run(60 * time.Second)
	if len(n.queue) > before+100 {
		t.Errorf("timers pile up: %d, then %d", before, len(n.queue))
	}
}
