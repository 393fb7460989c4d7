package main

import (
	"crypto/rand"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/hosts"
)

// forge sends a message that another key signed to every connected peer. It goes past the library,
// which doesn't send what it wouldn't accept.
func (n *node) forge(topic string, data []byte) error {
	other, err := hosts.NewKey("another key")
	if err != nil {
		return err
	}
	message := &pb.Message{
		From: []byte(n.host.ID()), Data: data, Seqno: make([]byte, 8), Topic: &topic,
	}
	if _, err := rand.Read(message.Seqno); err != nil {
		return err
	}
	bare, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	message.Signature, err = other.Sign(append([]byte(pubsub.SignPrefix), bare...))
	if err != nil {
		return err
	}
	for _, id := range n.host.Network().Peers() {
		if err := n.send(id, &pb.RPC{Publish: []*pb.Message{message}}); err != nil {
			return err
		}
	}
	return nil
}

// send writes one RPC on a stream of its own.
func (n *node) send(id peer.ID, rpc *pb.RPC) error {
	stream, err := n.host.NewStream(n.ctx, id, pubsub.GossipSubID_v11)
	if err != nil {
		return err
	}
	if _, err := protodelim.MarshalTo(stream, rpc); err != nil {
		_ = stream.Reset()
		return err
	}
	return stream.Close()
}
