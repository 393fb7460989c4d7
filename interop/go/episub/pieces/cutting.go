package pieces

import (
	"bytes"
	"errors"
	"math/bits"
	"slices"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

const (
	maxPieces     = 512
	smallestPiece = 8 << 10 // bytes
	largestPiece  = 62 << 10
	aim           = 16 // pieces of one message

	// MaxSize is the largest message, in bytes.
	MaxSize = 16 << 20
)

// preamble is what is known of a message before its pieces. Its fields are within their limits.
type preamble struct {
	wire   *pb.Preamble
	id     string
	source string
}

// newPreamble leaves out a key that the author's id holds: nobody has signed that.
func newPreamble(wire *pb.Preamble) *preamble {
	if _, err := peer.ID(wire.Author).ExtractPublicKey(); err == nil {
		wire.Key = nil
	}
	return &preamble{wire: wire, id: string(wire.Id), source: payload.Source(wire.Author)}
}

// isSame compares what is signed: a key may stand there in several encodings, and so may a signature.
func (p *preamble) isSame(other *preamble) bool {
	return p.id == other.id && p.size() == other.size() && p.pieceSize() == other.pieceSize() &&
		bytes.Equal(p.wire.Root, other.wire.Root) && bytes.Equal(p.wire.Author, other.wire.Author) &&
		bytes.Equal(p.wire.Seqno, other.wire.Seqno)
}

func (p *preamble) size() int      { return int(p.wire.GetSize()) }
func (p *preamble) pieceSize() int { return int(p.wire.GetPieceSize()) }
func (p *preamble) count() int     { return (p.size() + p.pieceSize() - 1) / p.pieceSize() }

// everything are all pieces.
func (p *preamble) everything() Mask { return first(p.count()) }

// length is the bytes of one piece.
func (p *preamble) length(index int) int {
	return min(p.pieceSize(), p.size()-index*p.pieceSize())
}

// belongs tells whether a piece is part of the message.
func (p *preamble) belongs(piece *pb.Piece) bool {
	index := int(piece.GetIndex())
	return index < p.count() && len(piece.Data) == p.length(index) &&
		holds(p.wire.Root, p.count(), index, leafHash(piece.Data), piece.Proof)
}

// Cut is a message in pieces.
type Cut struct {
	preamble *preamble
	pieces   []*pb.Piece
}

// pieceSizeFor is the bytes of each piece of a message of so many, but for the last.
func pieceSizeFor(size int) int {
	wanted := (size + aim - 1) / aim
	return min(max(1<<bits.Len(uint(wanted-1)), smallestPiece), largestPiece)
}

// NewCut cuts a message of our own, and signs its preamble.
func NewCut(key crypto.PrivKey, policy payload.Policy, message *pb.Message) (*Cut, error) {
	raw, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 || len(raw) > MaxSize {
		return nil, errors.New("no message in pieces has so many bytes")
	}
	found := cut(raw, []byte(policy.ID(message)), message.From, message.Seqno)
	return found, payload.SignPreamble(key, message.GetTopic(), found.preamble.wire)
}

// cut cuts the bytes of a message; the preamble isn't signed yet.
func cut(raw, id, author, seqno []byte) *Cut {
	size := pieceSizeFor(len(raw))
	leaves, found := []hash{}, &Cut{}
	for data := range slices.Chunk(raw, size) {
		leaves = append(leaves, leafHash(data))
		found.pieces = append(found.pieces, &pb.Piece{
			Id: id, Index: proto.Uint32(uint32(len(found.pieces))), Data: data,
		})
	}
	root, proofs := merkle(leaves)
	for i, piece := range found.pieces {
		piece.Proof, piece.Root = proofs[i], root[:]
	}
	found.preamble = newPreamble(&pb.Preamble{
		Id: id, Author: author, Seqno: seqno, Root: root[:],
		Size: proto.Uint32(uint32(len(raw))), PieceSize: proto.Uint32(uint32(size)),
	})
	return found
}
