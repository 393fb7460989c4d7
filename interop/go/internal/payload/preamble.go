package payload

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"errors"

	"github.com/libp2p/go-libp2p/core/crypto"
	keys "github.com/libp2p/go-libp2p/core/crypto/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

const sourceSize = 8 // bytes

// Source is what trees call an author.
func Source(author []byte) string {
	digest := sha256.Sum256(author)
	return string(digest[:sourceSize])
}

// SignPreamble signs the preamble of a large message of the key's peer.
func SignPreamble(key crypto.PrivKey, topic string, preamble *pb.Preamble) error {
	signed, err := preambleToSign(topic, preamble)
	if err != nil {
		return err
	}
	preamble.Signature, err = key.Sign(signed)
	return err
}

// ErrKey: nothing can be said of a preamble, since its author's key is none that preambles may have.
var ErrKey = errors.New("no key for preambles")

// Go's library takes larger exponents, and those that no signature can have, for wrong signatures.
const (
	leastRSABits = 2048
	mostRSABits  = 4096
	mostExponent = 1<<31 - 1
)

// CheckPreamble returns an error unless the id follows from author and seqno, and the author has
// signed the preamble for this topic. ErrKey is no fault of those that pass the preamble on.
func (p Policy) CheckPreamble(topic string, preamble *pb.Preamble) error {
	bare := &pb.Message{From: preamble.Author, Seqno: preamble.Seqno, Topic: &topic}
	if p != StrictSign || p.ID(bare) != string(preamble.Id) {
		return errors.New("the id isn't that of a message of this author")
	}
	public, err := preambleKey(preamble)
	if err != nil {
		return err
	}
	signed, err := preambleToSign(topic, preamble)
	if err != nil {
		return err
	}
	if !holds(public, signed, preamble.Signature) {
		return errors.New("the signature is wrong")
	}
	return nil
}

// preambleKey is the author's key, if it is one of those of docs/wire.md.
func preambleKey(preamble *pb.Preamble) (crypto.PubKey, error) {
	author, err := peer.IDFromBytes(preamble.Author)
	if err != nil {
		return nil, err
	}
	public, err := author.ExtractPublicKey()
	if errors.Is(err, peer.ErrNoPublicKey) {
		public, err = readKey(preamble.Key)
	}
	if err != nil || !isForPreambles(public) {
		return nil, ErrKey
	}
	if !author.MatchesPublicKey(public) {
		return nil, errors.New("the key is not the author's")
	}
	return public, nil
}

// readKey reads a key that is written in the one way that there is for it.
func readKey(raw []byte) (crypto.PubKey, error) {
	public, err := crypto.UnmarshalPublicKey(raw)
	if err != nil {
		return nil, err
	}
	if again, err := crypto.MarshalPublicKey(public); err != nil || !bytes.Equal(again, raw) {
		return nil, ErrKey
	}
	return public, nil
}

func isForPreambles(public crypto.PubKey) bool {
	switch public.Type() {
	case keys.KeyType_Ed25519, keys.KeyType_Secp256k1:
		return true
	case keys.KeyType_RSA:
		standard, err := crypto.PubKeyToStdKey(public)
		key, is := standard.(*rsa.PublicKey)
		return err == nil && is && key.N.BitLen() >= leastRSABits && key.N.BitLen() <= mostRSABits &&
			key.N.Bit(0) == 1 && key.E%2 == 1 && key.E > 1 && key.E <= mostExponent
	}
	return false
}

// preambleToSign is what an author signs.
func preambleToSign(topic string, preamble *pb.Preamble) ([]byte, error) {
	record := &pb.PreambleRecord{
		Topic: &topic, Id: preamble.Id, Seqno: preamble.Seqno,
		Size: preamble.Size, PieceSize: preamble.PieceSize, Root: preamble.Root,
	}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte("episub-preamble:"), record)
}
