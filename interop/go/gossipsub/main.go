// The interop peer of go-libp2p-pubsub. interop/README.md has the flags, commands and events.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
)

// maxLine bounds a command: a payload of 1 MiB in base64 and what stands around it. Bytes.
const maxLine = 2 << 20

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	args, err := parse(words)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h, err := newHost(args.keySeed, args.listen)
	if err != nil {
		return err
	}
	defer h.Close()
	options, err := args.pubsub()
	if err != nil {
		return err
	}
	options = append(options, pubsub.WithRawTracer(newWatch()))
	if args.trace != "" {
		trace, err := openTrace(args.trace)
		if err != nil {
			return err
		}
		defer trace.finish()
		options = append(options, pubsub.WithEventTracer(trace))
	}
	ps, err := pubsub.NewGossipSub(ctx, h, options...)
	if err != nil {
		return err
	}
	tellConnections(h)
	tellListening(h)
	p := &node{ctx: ctx, host: h, pubsub: ps, topics: map[string]*pubsub.Topic{},
		leave: map[string]context.CancelFunc{}}
	for _, topic := range args.topics {
		p.obey(command{Op: "subscribe", Topic: topic})
	}
	for _, addr := range args.dials {
		p.obey(command{Op: "dial", Addr: addr})
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		p.read(lines.Bytes())
	}
	return lines.Err()
}
