// Package payload makes, checks and names the messages that applications publish: docs/wire.md,
// sections 2 and 4.
package payload

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
	"episub-interop/internal/plans"
)

// Policy says whether messages name their author and are signed.
type Policy int

const (
	// StrictSign: every message has its author, a sequence number and a signature.
	StrictSign Policy = iota
	// StrictNoSign: none has any of these, nor a key. Ids come from the content.
	StrictNoSign
	// Numbered is StrictNoSign with the ids of test-plans: the first bytes of the data.
	Numbered
)

var lastSeqno atomic.Uint64

func init() { lastSeqno.Store(uint64(time.Now().UnixNano())) }

// ID is what IHAVE and GRAFT call a message: the author followed by the sequence number, as raw
// bytes; without an author Ethereum's for data that isn't Snappy's, of topic and data.
func (p Policy) ID(message *pb.Message) string {
	if p == StrictSign {
		return string(message.From) + string(message.Seqno)
	}
	if p == Numbered {
		return plans.MessageID(message.Data)
	}
	content := make([]byte, 4) // MESSAGE_DOMAIN_INVALID_SNAPPY
	content = binary.LittleEndian.AppendUint64(content, uint64(len(message.GetTopic())))
	content = append(append(content, message.GetTopic()...), message.Data...)
	digest := sha256.Sum256(content)
	return string(digest[:20])
}

// New makes a message. An Ed25519 key stands in the peer id, so `key` is left out.
func (p Policy) New(key crypto.PrivKey, topic string, data []byte) (*pb.Message, error) {
	if p != StrictSign {
		return &pb.Message{Data: data, Topic: &topic}, nil
	}
	author, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	message := &pb.Message{
		From:  []byte(author),
		Data:  data,
		Seqno: binary.BigEndian.AppendUint64(nil, lastSeqno.Add(1)),
		Topic: &topic,
	}
	signed, err := toSign(message)
	if err != nil {
		return nil, err
	}
	message.Signature, err = key.Sign(signed)
	return message, err
}

// Check returns an error unless the message is as the policy wants it.
func (p Policy) Check(message *pb.Message) error {
	if p == StrictSign {
		return checkSignature(message)
	}
	if message.From != nil || message.Seqno != nil || message.Signature != nil || message.Key != nil {
		return errors.New("the message names its author")
	}
	return nil
}

// checkSignature returns an error unless the message is signed by the author that it names.
func checkSignature(message *pb.Message) error {
	public, err := publicKey(message.From, message.Key)
	if err != nil {
		return err
	}
	signed, err := toSign(message)
	if err != nil {
		return err
	}
	if !holds(public, signed, message.Signature) {
		return errors.New("the signature is wrong")
	}
	return nil
}

// publicKey is that of an author: from the peer id, or else the one that stands beside it.
func publicKey(from, key []byte) (crypto.PubKey, error) {
	author, err := peer.IDFromBytes(from)
	if err != nil {
		return nil, err
	}
	public, err := author.ExtractPublicKey()
	if errors.Is(err, peer.ErrNoPublicKey) {
		public, err = crypto.UnmarshalPublicKey(key)
	}
	if err != nil {
		return nil, err
	}
	if !author.MatchesPublicKey(public) {
		return nil, errors.New("the key is not the author's")
	}
	return public, nil
}

// toSign is what an author signs: a prefix and the message without signature and key.
func toSign(message *pb.Message) ([]byte, error) {
	bare := proto.Clone(message).(*pb.Message)
	bare.Signature, bare.Key = nil, nil
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte("libp2p-pubsub:"), bare)
}
