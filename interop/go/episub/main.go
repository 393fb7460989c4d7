// Command episub is an implementation of /episub/1.0.0 in Go, made from docs/wire.md and
// proto/episub.proto: a node with all of the protocol and no gossipsub.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/hosts"
	"episub-interop/internal/lines"
	"episub-interop/internal/payload"
	"episub-interop/internal/records"
)

const goodbye = 100 * time.Millisecond // libp2p can't tell when the last frames are out

var errNotSubscribed = errors.New("not subscribed")

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var listen, dials, topics lines.List
	flag.Var(&listen, "listen", "multiaddress to listen on")
	flag.Var(&dials, "dial", "full multiaddress of a peer")
	flag.Var(&topics, "topic", "a topic to subscribe to")
	seed := flag.String("key-seed", "", "text that the key is made from")
	name := flag.String("policy", "StrictSign", "StrictSign, or StrictNoSign with --ids=ethereum")
	alone := flag.Bool("no-listen", false, "listen nowhere")
	threshold := flag.Int("piece-threshold", 0, "bytes from which on messages go in pieces; 0: none")
	ids := flag.String("ids", "", "ethereum: message ids of the content, with StrictNoSign")
	params := flag.String("params", "", "run the script of test-plans in this file")
	flag.Parse()
	if *params != "" {
		return runPlan(*params, *threshold)
	}
	if len(listen) == 0 && !*alone {
		listen = lines.List{"/ip4/127.0.0.1/tcp/0"}
	}
	key, err := hosts.NewKey(*seed)
	if err != nil {
		return err
	}
	h, err := hosts.New(key, listen)
	if err != nil {
		return err
	}
	record, err := records.Own(h, key)
	if err != nil {
		return err
	}
	policy := payload.StrictSign
	if *name == "StrictNoSign" {
		policy = payload.StrictNoSign
	}
	if (*ids == "ethereum") != (policy == payload.StrictNoSign) {
		return errors.New("StrictNoSign and --ids=ethereum go together")
	}
	n := newNode(h, key, record, policy)
	n.threshold = *threshold
	n.listen()
	go n.run()
	lines.Listening(h, "github.com/libp2p/go-libp2p", "google.golang.org/protobuf")
	for _, topic := range topics {
		n.do(func() { n.subscribe(topic) })
	}
	for _, addr := range dials {
		go n.connect(addr)
	}
	if err := lines.Commands(os.Stdin, n.obey); err != nil {
		return err
	}
	n.end()
	return h.Close()
}

// end leaves all topics.
func (n *node) end() {
	left := make(chan struct{})
	n.do(func() {
		for _, topic := range n.subscriptions() {
			n.unsubscribe(topic)
		}
		close(left)
	})
	<-left
	time.Sleep(goodbye)
	close(n.done)
}

// obey carries out one command. What fails beside it is an event, too.
func (n *node) obey(c lines.Command) error {
	switch c.Op {
	case "publish":
		n.do(func() { n.obeyPublish(c) })
	case "subscribe":
		n.do(func() { n.subscribe(c.Topic) })
	case "unsubscribe":
		n.do(func() { n.unsubscribe(c.Topic) })
	case "dial":
		go n.connect(c.Addr)
	case "lie":
		n.do(func() { n.faults.lies = true })
	case "counts":
		n.do(n.counts.emit)
	case "block", "unblock", "mute", "unmute":
		id, err := peer.Decode(c.Peer)
		if err != nil {
			return err
		}
		n.do(func() { n.fault(c.Op, id) })
	default:
		return fmt.Errorf("no command is called %q", c.Op)
	}
	return nil
}

func (n *node) obeyPublish(c lines.Command) {
	data := c.Payload()
	if err := n.publish(c.Topic, data); err != nil {
		lines.Failed(c.Op, err)
		return
	}
	lines.Emit("published", lines.Digest(data, lines.Fields{"topic": c.Topic}))
}

func (n *node) connect(addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), streamTimeout)
	defer cancel()
	info, err := peer.AddrInfoFromString(addr)
	if err == nil {
		err = n.host.Connect(ctx, *info)
	}
	if err != nil {
		lines.Failed("dial", err)
	}
}
