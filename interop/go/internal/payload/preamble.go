package payload

import (
	"crypto/sha256"
	"errors"

	"github.com/libp2p/go-libp2p/core/crypto"
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

// CheckPreamble returns an error unless the id follows from author and seqno, and the author has
// signed the preamble for this topic.
func (p Policy) CheckPreamble(topic string, preamble *pb.Preamble) error {
	bare := &pb.Message{From: preamble.Author, Seqno: preamble.Seqno, Topic: &topic}
	if p != StrictSign || p.ID(bare) != string(preamble.Id) {
		return errors.New("the id isn't that of a message of this author")
	}
	public, err := publicKey(preamble.Author, preamble.Key)
	if err != nil {
		return err
	}
	signed, err := preambleToSign(topic, preamble)
	if err != nil {
		return err
	}
	if ok, err := public.Verify(signed, preamble.Signature); err != nil || !ok {
		return errors.New("the signature is wrong")
	}
	return nil
}

// preambleToSign is what an author signs.
func preambleToSign(topic string, preamble *pb.Preamble) ([]byte, error) {
	record := &pb.PreambleRecord{
		Topic: &topic, Id: preamble.Id, Seqno: preamble.Seqno,
		Size: preamble.Size, PieceSize: preamble.PieceSize, Root: preamble.Root,
	}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte("episub-preamble:"), record)
}
