package pieces

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// vectors are those of docs/wire.md, section 10, which the Python node is tested with, too.
func vectors(t *testing.T) [][]byte {
	text, err := os.ReadFile("../../../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	found := [][]byte{}
	for _, block := range regexp.MustCompile("(?m)^```text\n([0-9a-f\n]+)```$").FindAllSubmatch(text, -1) {
		raw, err := hex.DecodeString(strings.ReplaceAll(string(block[1]), "\n", ""))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, raw)
	}
	return found
}

// frameOf is the one that an RPC has.
func frameOf(t *testing.T, raw []byte) *pb.EpisubFrame {
	rpc := &pb.EpisubRpc{}
	if err := proto.Unmarshal(raw, rpc); err != nil || rpc.Episub == nil {
		t.Fatal("no frame", err)
	}
	return rpc.Episub
}

// author is the peer of the vectors, and its key.
func author(t *testing.T) (peer.ID, crypto.PrivKey) {
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{0x61}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id, key
}

func TestTheVectorsOfPieces(t *testing.T) {
	all := vectors(t)
	control, last := frameOf(t, all[len(all)-4]), frameOf(t, all[len(all)-3])
	id, key := author(t)
	if string(all[len(all)-1]) != string(id) {
		t.Fatal("another author")
	}
	seqno := []byte{0, 0, 0, 0, 0, 0, 0, 7}
	message := append([]byte(id), seqno...)
	made := cut(bytes.Repeat([]byte("a"), 16_386), message, []byte(id), seqno)
	if err := payload.SignPreamble(key, "blocks", made.preamble.wire); err != nil {
		t.Fatal(err)
	}

	source := []byte(made.preamble.source)
	same := func(frame *pb.EpisubFrame, controls ...*pb.Control) {
		t.Helper()
		seq := uint64(1) << 60
		want := &pb.EpisubFrame{Topic: proto.String("blocks"), Seq: &seq, Control: controls}
		if !proto.Equal(frame, want) {
			t.Errorf("\n%v\nwanted\n%v", frame, want)
		}
	}
	same(control,
		&pb.Control{Message: &pb.Control_PieceOffer{PieceOffer: &pb.PieceOffer{
			Offers: []*pb.TreeOffer{{Source: source, Rank: proto.Uint32(2)}},
		}}},
		&pb.Control{Message: &pb.Control_PieceAnnounce{PieceAnnounce: &pb.PieceAnnounce{
			Preamble: made.preamble.wire, Have: one(0).or(one(2)).bytes(), Hops: proto.Uint32(3),
		}}},
		&pb.Control{Message: &pb.Control_PieceGraft{PieceGraft: &pb.PieceGraft{
			Wants: []*pb.PieceWant{{Id: message, Missing: one(1).bytes()}}, Source: source,
		}}},
		&pb.Control{Message: &pb.Control_PiecePrune{PiecePrune: &pb.PiecePrune{
			Source: source, Instead: [][]byte{[]byte(id)},
		}}})
	same(last, &pb.Control{Message: &pb.Control_Piece{Piece: made.pieces[2]}})
}

func TestWhatTheVectorsSayIsChecked(t *testing.T) {
	all := vectors(t)
	announce := frameOf(t, all[len(all)-4]).Control[1].GetPieceAnnounce()
	piece := frameOf(t, all[len(all)-3]).Control[0].GetPiece()
	found, sound := readPreamble(announce.Preamble)
	if !sound || found.count() != 3 || found.length(2) != 2 || !found.belongs(piece) {
		t.Fatal("the preamble, or the piece, can't be")
	}
	if err := payload.StrictSign.CheckPreamble("blocks", found.wire); err != nil {
		t.Error(err)
	}
	if payload.StrictSign.CheckPreamble("other", found.wire) == nil ||
		payload.StrictNoSign.CheckPreamble("blocks", found.wire) == nil {
		t.Error("another topic, or one without signatures")
	}
	for _, change := range []func(*pb.Preamble){
		func(p *pb.Preamble) { p.Id = append([]byte{}, p.Id[1:]...) },
		func(p *pb.Preamble) { p.Author = append(p.Author, 0) },
		func(p *pb.Preamble) { p.Seqno, p.Id = []byte("8"), append(p.Author, '8') },
		func(p *pb.Preamble) { p.Size = proto.Uint32(p.GetSize() + 1) },
		func(p *pb.Preamble) { p.PieceSize = proto.Uint32(p.GetPieceSize() + 1) },
		func(p *pb.Preamble) { p.Root[0] ^= 1 },
		func(p *pb.Preamble) { p.Signature[0] ^= 1 },
		func(p *pb.Preamble) { p.Signature = nil },
	} {
		forged := proto.Clone(announce.Preamble).(*pb.Preamble)
		change(forged)
		if payload.StrictSign.CheckPreamble("blocks", forged) == nil {
			t.Errorf("signed by nobody: %v", forged)
		}
	}
	for _, change := range []func(*pb.Piece){
		func(p *pb.Piece) { p.Index = proto.Uint32(1) },
		func(p *pb.Piece) { p.Index = proto.Uint32(3) },
		func(p *pb.Piece) { p.Index = proto.Uint32(1<<32 - 1) },
		func(p *pb.Piece) { p.Data = append(p.Data, 0) },
		func(p *pb.Piece) { p.Data[0] ^= 1 },
		func(p *pb.Piece) { p.Proof[0] ^= 1 },
		func(p *pb.Piece) { p.Proof = append(p.Proof, make([]byte, 32)...) },
		func(p *pb.Piece) { p.Proof = nil },
	} {
		forged := proto.Clone(piece).(*pb.Piece)
		change(forged)
		if found.belongs(forged) {
			t.Errorf("no piece of it: %v", forged)
		}
	}
}

func TestPreamblesBeyondTheLimitsAreNotRead(t *testing.T) {
	all := vectors(t)
	honest := frameOf(t, all[len(all)-4]).Control[1].GetPieceAnnounce().Preamble
	for _, change := range []func(*pb.Preamble){
		func(p *pb.Preamble) { p.Id = nil },
		func(p *pb.Preamble) { p.Id = make([]byte, maxMessageID+1) },
		func(p *pb.Preamble) { p.Author = []byte("nobody") },
		func(p *pb.Preamble) { p.Seqno = nil },
		func(p *pb.Preamble) { p.Seqno = make([]byte, maxSeqno+1) },
		func(p *pb.Preamble) { p.Size = nil },
		func(p *pb.Preamble) { p.Size = proto.Uint32(maxPieces*8192 + 1) },
		func(p *pb.Preamble) { p.PieceSize = proto.Uint32(8191) },
		func(p *pb.Preamble) { p.PieceSize = proto.Uint32(largestPiece + 1) },
		func(p *pb.Preamble) { p.PieceSize = nil },
		func(p *pb.Preamble) { p.Root = p.Root[1:] },
		func(p *pb.Preamble) { p.Key = make([]byte, maxKey+1) },
		func(p *pb.Preamble) { p.Signature = make([]byte, maxSignature+1) },
	} {
		bad := proto.Clone(honest).(*pb.Preamble)
		change(bad)
		if _, sound := readPreamble(bad); sound {
			t.Errorf("read: %v", bad)
		}
	}
	if _, sound := readPreamble(nil); sound {
		t.Error("no preamble was read")
	}
	if _, sound := readPreamble(honest); !sound {
		t.Error("a good one wasn't read")
	}
}
