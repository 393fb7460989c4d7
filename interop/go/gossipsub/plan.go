package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/plans"
)

// largest is what an RPC may have, in bytes: as much as nodes of test-plans allow.
const largest = 10 << 20

var errNotInitialised = errors.New("the script has no initGossipSub before this")

// planned is a router that a script of test-plans acts on.
type planned struct {
	host   host.Host
	trace  string
	pubsub *pubsub.PubSub
	topics map[string]*pubsub.Topic
}

// copies logs each message that comes, the first copy and the others.
type copies struct{ unheeded }

func (copies) RecvRPC(rpc *pubsub.RPC) {
	for _, message := range rpc.GetPublish() {
		plans.Received(rpc.From(), message.GetTopic(), message.GetData())
	}
}

func (p *planned) Init(raw json.RawMessage) error {
	params := pubsub.DefaultGossipSubParams()
	if err := json.Unmarshal(raw, &params); err != nil {
		return err
	}
	options := []pubsub.Option{
		pubsub.WithGossipSubParams(params),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(message *pb.Message) string { return plans.MessageID(message.Data) }),
		pubsub.WithPeerOutboundQueueSize(queueSize),
		pubsub.WithValidateQueueSize(queueSize),
		pubsub.WithMaxMessageSize(largest),
		pubsub.WithRawTracer(copies{}),
	}
	if p.trace != "" {
		// It writes what it has within a second; nothing comes in the script's last ones.
		trace, err := pubsub.NewPBTracer(p.trace)
		if err != nil {
			return err
		}
		options = append(options, pubsub.WithEventTracer(trace))
	}
	made, err := pubsub.NewGossipSub(context.Background(), p.host, options...)
	p.pubsub = made
	return err
}

func (p *planned) join(name string) (*pubsub.Topic, error) {
	if p.pubsub == nil {
		return nil, errNotInitialised
	}
	if p.topics[name] == nil {
		topic, err := p.pubsub.Join(name)
		if err != nil {
			return nil, err
		}
		p.topics[name] = topic
	}
	return p.topics[name], nil
}

func (p *planned) Subscribe(name string) error {
	topic, err := p.join(name)
	if err != nil {
		return err
	}
	sub, err := topic.Subscribe(pubsub.WithBufferSize(queue))
	if err != nil {
		return err
	}
	go func() {
		for {
			if _, err := sub.Next(context.Background()); err != nil {
				return
			}
		}
	}()
	return nil
}

func (p *planned) Publish(name string, data []byte) error {
	topic, err := p.join(name)
	if err != nil {
		return err
	}
	return topic.Publish(context.Background(), data)
}

func (p *planned) Delay(name string, each time.Duration) error {
	if p.pubsub == nil {
		return errNotInitialised
	}
	return p.pubsub.RegisterTopicValidator(name,
		func(context.Context, peer.ID, *pubsub.Message) pubsub.ValidationResult {
			time.Sleep(each)
			return pubsub.ValidationAccept
		})
}
