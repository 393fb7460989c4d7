// The interop peer of go-libp2p-pubsub. interop/README.md has the flags, commands and events.
package main

import (
	"context"
	"fmt"
	"os"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"

	"episub-interop/internal/hosts"
	"episub-interop/internal/lines"
	"episub-interop/internal/plans"
)

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
	if args.params != "" {
		return plans.Main(args.params, func(h host.Host, _ crypto.PrivKey) plans.Router {
			return &planned{host: h, trace: args.trace, topics: map[string]*pubsub.Topic{}}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	key, err := hosts.NewKey(args.keySeed)
	if err != nil {
		return err
	}
	h, err := args.host(key)
	if err != nil {
		return err
	}
	defer h.Close()
	scores := &report{}
	options, err := args.pubsub(scores)
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
	if args.collector != "" {
		trace, err := remoteTrace(ctx, h, args.collector)
		if err != nil {
			return err
		}
		options = append(options, pubsub.WithEventTracer(trace))
	}
	ps, err := pubsub.NewGossipSub(ctx, h, options...)
	if err != nil {
		return err
	}
	tellConnections(h)
	lines.Listening(h, "github.com/libp2p/go-libp2p", "github.com/libp2p/go-libp2p-pubsub")
	n := &node{ctx: ctx, host: h, pubsub: ps, topics: map[string]*pubsub.Topic{},
		leave: map[string]context.CancelFunc{}, forges: args.badSign, scores: scores}
	for _, topic := range args.topics {
		if err := n.subscribe(topic); err != nil {
			return err
		}
	}
	for _, addr := range args.dials {
		go n.dial(addr)
	}
	return lines.Commands(os.Stdin, n.obey)
}
