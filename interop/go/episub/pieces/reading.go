package pieces

import (
	"crypto/sha256"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// What comes is read here: the rest of the package gets nothing beyond the limits of docs/wire.md,
// section 9, and keeps no more of a message than these fields.

const (
	maxHops      = 64
	maxMessageID = 256
	maxSeqno     = 64
	maxKey       = 640
	maxSignature = 512
	maxHashes    = 9 // of a proof
	maxWants     = 64
	maxOffers    = 64 // that are read of one message
	maxNamed     = 8  // of `instead`
	maxRank      = 1 << 16
	sourceSize   = 8
)

func isID(id []byte) bool { return len(id) > 0 && len(id) <= maxMessageID }

func readPiece(message *pb.Piece) (*pb.Piece, bool) {
	sound := isID(message.Id) && message.GetIndex() < maxPieces &&
		len(message.Root) == sha256.Size && len(message.Data) > 0 && len(message.Data) <= largestPiece &&
		len(message.Proof)%sha256.Size == 0 && len(message.Proof) <= maxHashes*sha256.Size
	return &pb.Piece{
		Id: message.Id, Index: proto.Uint32(message.GetIndex()), Proof: message.Proof, Data: message.Data,
		Root: message.Root,
	}, sound
}

func readPreamble(message *pb.Preamble) (*preamble, bool) {
	_, err := peer.IDFromBytes(message.GetAuthor())
	size, pieceSize := message.GetSize(), message.GetPieceSize()
	if err != nil || !isID(message.Id) || len(message.Seqno) == 0 || len(message.Seqno) > maxSeqno ||
		len(message.Key) > maxKey || len(message.Signature) > maxSignature ||
		len(message.Root) != sha256.Size || pieceSize < smallestPiece || pieceSize > largestPiece ||
		size == 0 || size > MaxSize || size > maxPieces*pieceSize {
		return nil, false
	}
	return newPreamble(&pb.Preamble{
		Id: message.Id, Author: message.Author, Seqno: message.Seqno, Root: message.Root,
		Size: proto.Uint32(size), PieceSize: proto.Uint32(pieceSize),
		Key: message.Key, Signature: message.Signature,
	}), true
}

// readOffers are the places offered, without those that can't be.
func readOffers(message *pb.PieceOffer) []place {
	found := []place{}
	for _, offer := range message.Offers[:min(len(message.Offers), maxOffers)] {
		if len(offer.Source) == sourceSize && offer.GetRank() < maxRank {
			found = append(found, place{string(offer.Source), int(offer.GetRank())})
		}
	}
	return found
}

// place is one in the tree of a source.
type place struct {
	source string
	rank   int // of the node that offers it
}

// want is what is missing of a message.
type want struct {
	id      string
	missing Mask
}

func readWants(message *pb.PieceGraft) []want {
	found := []want{}
	for _, entry := range message.Wants[:min(len(message.Wants), maxWants)] {
		missing, ok := readMask(entry.Missing)
		if ok && isID(entry.Id) {
			found = append(found, want{string(entry.Id), missing})
		}
	}
	return found
}

func readNamed(message *pb.PiecePrune) []peer.ID {
	found := []peer.ID{}
	for _, raw := range message.Instead[:min(len(message.Instead), maxNamed)] {
		if id, err := peer.IDFromBytes(raw); err == nil {
			found = append(found, id)
		}
	}
	return found
}
