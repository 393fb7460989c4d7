package main

import (
	"context"
	"encoding/hex"
	"fmt"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/lines"
)

// queue is how many messages wait for a subscription's reader; the library drops what is over.
const queue = 4096

// node is the host, its subscriptions, and the commands that it takes.
type node struct {
	ctx    context.Context
	host   host.Host
	pubsub *pubsub.PubSub
	topics map[string]*pubsub.Topic
	leave  map[string]context.CancelFunc
	forges bool
	scores *report
}

// obey carries out one command. Dials don't hold up the rest: what fails there is reported.
func (n *node) obey(c lines.Command) error {
	switch c.Op {
	case "publish":
		return n.publish(c)
	case "subscribe":
		return n.subscribe(c.Topic)
	case "unsubscribe":
		return n.unsubscribe(c.Topic)
	case "scores":
		n.scores.asked.Store(true)
		return nil
	case "dial":
		go n.dial(c.Addr)
		return nil
	}
	return fmt.Errorf("no command is called %q", c.Op)
}

func (n *node) join(name string) (*pubsub.Topic, error) {
	if topic, ok := n.topics[name]; ok {
		return topic, nil
	}
	topic, err := n.pubsub.Join(name)
	if err != nil {
		return nil, err
	}
	n.topics[name] = topic
	return topic, topic.SetScoreParams(topicScoring())
}

func (n *node) publish(c lines.Command) error {
	data := c.Payload()
	if n.forges {
		if err := n.forge(c.Topic, data); err != nil {
			return err
		}
	} else {
		topic, err := n.join(c.Topic)
		if err != nil {
			return err
		}
		if err := topic.Publish(n.ctx, data); err != nil {
			return err
		}
	}
	lines.Emit("published", lines.Digest(data, lines.Fields{"topic": c.Topic}))
	return nil
}

func (n *node) subscribe(name string) error {
	if _, ok := n.leave[name]; ok {
		return fmt.Errorf("subscribed to %q before", name)
	}
	topic, err := n.join(name)
	if err != nil {
		return err
	}
	sub, err := topic.Subscribe(pubsub.WithBufferSize(queue))
	if err != nil {
		return err
	}
	n.leave[name] = sub.Cancel
	go n.tellDeliveries(sub)
	lines.Emit("subscribed", lines.Fields{"topic": name})
	return nil
}

func (n *node) unsubscribe(name string) error {
	leave, ok := n.leave[name]
	if !ok {
		return fmt.Errorf("not subscribed to %q", name)
	}
	leave()
	delete(n.leave, name)
	lines.Emit("unsubscribed", lines.Fields{"topic": name})
	return nil
}

func (n *node) dial(addr string) {
	info, err := peer.AddrInfoFromString(addr)
	if err == nil {
		err = n.host.Connect(n.ctx, *info)
	}
	if err != nil {
		lines.Failed("dial", err)
	}
}

func (n *node) tellDeliveries(sub *pubsub.Subscription) {
	for {
		message, err := sub.Next(n.ctx)
		if err != nil {
			return
		}
		if message.GetFrom() == n.host.ID() {
			continue
		}
		lines.Emit("delivery", lines.Digest(message.Data, lines.Fields{
			"topic": message.GetTopic(),
			"from":  message.GetFrom().String(),
			"id":    hex.EncodeToString([]byte(message.ID)),
		}))
	}
}
