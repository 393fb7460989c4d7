package main

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/lines"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
	"episub-interop/internal/plans"
	"episub-interop/internal/records"
)

// plan is a node that a script of test-plans acts on. GossipSub's parameters are not for it.
type plan struct {
	node   *node
	delays map[string]time.Duration // that validation takes, by topic
}

// runPlan runs the script in the file at path. With a threshold, messages have an author and a signature,
// without which none goes in pieces.
func runPlan(path string, threshold int) error {
	lines.Aside()
	return plans.Main(path, func(h host.Host, key crypto.PrivKey) plans.Router {
		policy := payload.Numbered
		if threshold > 0 {
			policy = payload.StrictSign
		}
		p := &plan{node: newNode(h, key, nil, policy), delays: map[string]time.Duration{}}
		p.node.threshold, p.node.plan = threshold, p
		return p
	})
}

func (p *plan) Init(json.RawMessage) error {
	record, err := records.Own(p.node.host, p.node.key)
	if err != nil {
		return err
	}
	p.node.record = record
	p.node.listen()
	go p.node.run()
	return nil
}

func (p *plan) Subscribe(topic string) error {
	p.node.do(func() { p.node.subscribe(topic) })
	return nil
}

func (p *plan) Publish(topic string, data []byte) error {
	failed := make(chan error)
	p.node.do(func() { failed <- p.node.publish(topic, data) })
	return <-failed
}

func (p *plan) Delay(topic string, each time.Duration) error {
	p.node.do(func() { p.delays[topic] = each })
	return nil
}

// copied reports a copy of a message, before it is validated.
func (n *node) copied(from peer.ID, message *pb.Message) {
	if n.plan != nil {
		plans.Received(from, message.GetTopic(), message.GetData())
		return
	}
	lines.Emit("copy", lines.Digest(message.Data, lines.Fields{"peer": from.String()}))
}

// delivered reports a message that the application gets; of a script, one that came in pieces.
func (n *node) delivered(message *pb.Message) {
	if n.plan == nil {
		lines.Emit("delivery", lines.Digest(message.Data, lines.Fields{
			"topic": message.GetTopic(),
			"from":  peer.ID(message.From).String(),
			"id":    hex.EncodeToString([]byte(n.policy.ID(message))),
		}))
	} else if n.threshold > 0 && proto.Size(message) >= n.threshold {
		plans.Received(peer.ID(message.From), message.GetTopic(), message.Data)
	}
}

// validated calls f once the messages of an RPC have been validated for as long as the script says.
func (n *node) validated(rpc *pb.Rpc, f func()) {
	delay := time.Duration(0)
	for _, message := range rpc.Publish {
		if n.plan != nil {
			delay = max(delay, n.plan.delays[message.GetTopic()])
		}
	}
	if delay > 0 {
		n.later(delay, f)
		return
	}
	f()
}
