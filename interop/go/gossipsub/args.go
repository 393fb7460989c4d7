package main

import (
	"flag"
	"fmt"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/protocol"

	"episub-interop/internal/lines"
)

// arguments is the parsed command line.
type arguments struct {
	listen, dials, topics          lines.List
	keySeed, protocol, mesh, trace string
	collector, policy, ids, params string
	heartbeat                      int
	px, noSign, badSign            bool
}

// queueSize is Prysm's. With the library's 32 a go peer loses what it publishes at a time, if its
// process waits for a core meanwhile; a mesh peer isn't sent that again, nor announced.
const queueSize = 600

func parse(words []string) (*arguments, error) {
	args := &arguments{}
	flags := flag.NewFlagSet("gossipsub", flag.ContinueOnError)
	flags.Var(&args.listen, "listen", "where to listen, repeatable")
	flags.Var(&args.dials, "dial", "full address of a peer, repeatable")
	flags.Var(&args.topics, "topic", "subscribe, repeatable")
	flags.StringVar(&args.keySeed, "key-seed", "", "text to make the key of")
	flags.StringVar(&args.protocol, "protocol", "", "offer this gossipsub version only")
	flags.StringVar(&args.mesh, "mesh", "4,6,12", "LOW,D,HIGH")
	flags.IntVar(&args.heartbeat, "heartbeat", 1000, "milliseconds")
	flags.BoolVar(&args.px, "px", false, "name peers in PRUNE")
	flags.BoolVar(&args.noSign, "no-sign", false, "publish without a signature")
	flags.BoolVar(&args.badSign, "bad-sign", false, "publish with another key's signature")
	flags.StringVar(&args.policy, "policy", "StrictSign", "or StrictNoSign")
	flags.StringVar(&args.ids, "ids", "", "message ids: data or ethereum, or else the author's")
	flags.StringVar(&args.trace, "trace", "", "file for what PBTracer writes")
	flags.StringVar(&args.collector, "collector", "", "full address that RemoteTracer sends to")
	flags.StringVar(&args.params, "params", "", "run the script of test-plans in this file")
	if err := flags.Parse(words); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	if len(args.listen) == 0 {
		args.listen = lines.List{"/ip4/127.0.0.1/tcp/0"}
	}
	return args, nil
}

// pubsub is the configuration that the flags ask for.
func (a *arguments) pubsub(into *report) ([]pubsub.Option, error) {
	params := pubsub.DefaultGossipSubParams()
	if _, err := fmt.Sscanf(a.mesh, "%d,%d,%d", &params.Dlo, &params.D, &params.Dhi); err != nil {
		return nil, fmt.Errorf("--mesh takes LOW,D,HIGH, not %q", a.mesh)
	}
	// The library wants fewer than LOW, fewer than half of D.
	params.Dout = max(0, min(params.Dout, params.Dlo-1, params.D/2-1))
	params.Dscore = min(params.Dscore, params.D)
	params.HeartbeatInterval = time.Duration(a.heartbeat) * time.Millisecond
	options := []pubsub.Option{
		pubsub.WithGossipSubParams(params),
		pubsub.WithPeerOutboundQueueSize(queueSize),
		pubsub.WithValidateQueueSize(queueSize),
		pubsub.WithPeerExchange(a.px),
	}
	options = append(options, scoring(a.topics, into)...)
	switch a.policy {
	case "StrictSign":
	case "StrictNoSign":
		options = append(options, pubsub.WithNoAuthor(),
			pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign))
	default:
		return nil, fmt.Errorf("--policy is StrictSign or StrictNoSign, not %q", a.policy)
	}
	if a.ids != "" {
		function, ok := messageIDs[a.ids]
		if !ok {
			return nil, fmt.Errorf("--ids is data or ethereum, not %q", a.ids)
		}
		options = append(options, pubsub.WithMessageIdFn(function))
	}
	if a.noSign {
		options = append(options, pubsub.WithMessageSignaturePolicy(pubsub.LaxNoSign))
	}
	if a.protocol != "" {
		only := protocol.ID(a.protocol)
		if !pubsub.GossipSubDefaultFeatures(pubsub.GossipSubFeatureMesh, only) {
			return nil, fmt.Errorf("this peer doesn't speak %q", a.protocol)
		}
		options = append(options, pubsub.WithGossipSubProtocols(
			[]protocol.ID{only}, pubsub.GossipSubDefaultFeatures))
	}
	return options, nil
}
