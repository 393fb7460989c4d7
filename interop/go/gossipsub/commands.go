package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

// queue is how many messages wait for a subscription's reader; the library drops what is over.
const queue = 4096

// command is one line of standard input.
type command struct {
	Op    string `json:"op"`
	Topic string `json:"topic"`
	Data  []byte `json:"data"`
	Size  *int   `json:"size"`
	Seed  string `json:"seed"`
	Addr  string `json:"addr"`
}

// node is the host, its subscriptions, and the commands that it takes.
type node struct {
	ctx    context.Context
	host   host.Host
	pubsub *pubsub.PubSub
	topics map[string]*pubsub.Topic
	leave  map[string]context.CancelFunc
}

func (n *node) read(line []byte) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		emit("failed", fields{"op": c.Op, "error": err.Error()})
		return
	}
	n.obey(c)
}

// obey carries out one command; what fails is told. Dials don't hold up the rest.
func (n *node) obey(c command) {
	var err error
	switch c.Op {
	case "publish":
		err = n.publish(c)
	case "subscribe":
		err = n.subscribe(c.Topic)
	case "unsubscribe":
		err = n.unsubscribe(c.Topic)
	case "dial":
		go n.dial(c.Addr)
	default:
		err = fmt.Errorf("no command is called %q", c.Op)
	}
	if err != nil {
		emit("failed", fields{"op": c.Op, "error": err.Error()})
	}
}

func (n *node) join(name string) (*pubsub.Topic, error) {
	if topic, ok := n.topics[name]; ok {
		return topic, nil
	}
	topic, err := n.pubsub.Join(name)
	if err == nil {
		n.topics[name] = topic
	}
	return topic, err
}

func (n *node) publish(c command) error {
	data := c.Data
	if c.Size != nil {
		data = payload(*c.Size, c.Seed)
	}
	topic, err := n.join(c.Topic)
	if err != nil {
		return err
	}
	if err := topic.Publish(n.ctx, data); err != nil {
		return err
	}
	emit("published", digest(data, fields{"topic": c.Topic}))
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
	emit("subscribed", fields{"topic": name})
	return nil
}

func (n *node) unsubscribe(name string) error {
	leave, ok := n.leave[name]
	if !ok {
		return fmt.Errorf("not subscribed to %q", name)
	}
	leave()
	delete(n.leave, name)
	emit("unsubscribed", fields{"topic": name})
	return nil
}

func (n *node) dial(addr string) {
	info, err := peer.AddrInfoFromString(addr)
	if err == nil {
		err = n.host.Connect(n.ctx, *info)
	}
	if err != nil {
		emit("failed", fields{"op": "dial", "error": err.Error()})
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
		emit("delivery", digest(message.Data, fields{
			"topic": message.GetTopic(),
			"from":  message.GetFrom().String(),
			"id":    hex.EncodeToString([]byte(message.ID)),
		}))
	}
}

// payload is the SHA-256 of "seed/0", "seed/1", ..., cut to size bytes.
func payload(size int, seed string) []byte {
	data := make([]byte, 0, size+sha256.Size)
	for i := 0; len(data) < size; i++ {
		block := sha256.Sum256(fmt.Appendf(nil, "%s/%d", seed, i))
		data = append(data, block[:]...)
	}
	return data[:size]
}
