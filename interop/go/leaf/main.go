// Command leaf is a second implementation of /episub/1.0.0, made from docs/wire.md and
// proto/episub.proto alone. It is a leaf: a few neighbours, no shuffles, no walks but JOINs.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/hosts"
	"episub-interop/internal/lines"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
	"episub-interop/internal/records"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var listen, dials lines.List
	flag.Var(&listen, "listen", "multiaddress to listen on")
	flag.Var(&dials, "dial", "full multiaddress of a peer")
	topic := flag.String("topic", "", "the topic")
	seed := flag.String("key-seed", "", "text that the key is made from")
	flag.Parse()
	if *topic == "" {
		return errors.New("--topic is missing")
	}
	if len(listen) == 0 {
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
	n := newNode(h, key, record, *topic)
	n.listen()
	go n.run()
	lines.Listening(h, "github.com/libp2p/go-libp2p", "google.golang.org/protobuf")
	lines.Emit("subscribed", lines.Fields{"topic": *topic})
	for _, addr := range dials {
		go n.dial(addr)
	}
	if err := lines.Commands(os.Stdin, n.obey); err != nil {
		return err
	}
	left := make(chan struct{})
	n.do(func() { n.leave(); close(left) })
	<-left
	time.Sleep(lazyInterval) // the goodbyes are on their way; libp2p can't tell when they are out
	close(n.done)
	return h.Close()
}

// obey carries out one command. Dials don't hold up the rest: what fails there is reported.
func (n *node) obey(c lines.Command) error {
	switch c.Op {
	case "publish":
		return n.obeyPublish(c)
	case "dial":
		go n.dial(c.Addr)
		return nil
	}
	return fmt.Errorf("no command is called %q", c.Op)
}

func (n *node) obeyPublish(c lines.Command) error {
	data := c.Payload()
	message, err := payload.StrictSign.New(n.key, c.Topic, data)
	if err != nil {
		return err
	}
	n.do(func() {
		n.publish(message)
		lines.Emit("published", lines.Digest(data, lines.Fields{"topic": c.Topic}))
	})
	return nil
}

func (n *node) dial(addr string) {
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

func emitDelivery(message *pb.Message) {
	lines.Emit("delivery", lines.Digest(message.Data, lines.Fields{
		"topic": message.GetTopic(),
		"from":  peer.ID(message.From).String(),
		"id":    hex.EncodeToString([]byte(payload.StrictSign.ID(message))),
	}))
}
