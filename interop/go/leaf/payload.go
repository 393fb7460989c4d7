package main

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/leaf/pb"
)

var lastSeqno atomic.Uint64

func init() { lastSeqno.Store(uint64(time.Now().UnixNano())) }

// messageID is the author followed by the sequence number, as raw bytes.
func messageID(message *pb.Message) string {
	return string(message.From) + string(message.Seqno)
}

// newMessage makes a signed message. An Ed25519 key stands in the peer id, so `key` is left out.
func newMessage(key crypto.PrivKey, topic string, data []byte) (*pb.Message, error) {
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

// checkSignature returns an error unless the message is signed by the author that it names.
func checkSignature(message *pb.Message) error {
	author, err := peer.IDFromBytes(message.From)
	if err != nil {
		return err
	}
	public, err := author.ExtractPublicKey()
	if errors.Is(err, peer.ErrNoPublicKey) {
		public, err = crypto.UnmarshalPublicKey(message.Key)
	}
	if err != nil {
		return err
	}
	if !author.MatchesPublicKey(public) {
		return errors.New("the key is not the author's")
	}
	signed, err := toSign(message)
	if err != nil {
		return err
	}
	if ok, err := public.Verify(signed, message.Signature); err != nil || !ok {
		return errors.New("the signature is wrong")
	}
	return nil
}

// toSign is what an author signs: a prefix and the message without signature and key.
func toSign(message *pb.Message) ([]byte, error) {
	bare := proto.Clone(message).(*pb.Message)
	bare.Signature, bare.Key = nil, nil
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte("libp2p-pubsub:"), bare)
}
