package main

import (
	"maps"
	"slices"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"episub-interop/internal/lines"
)

type names map[string]struct{}

// watch tells of streams, subscriptions and meshes. The library calls it from its event loop, so
// that it needs no lock.
type watch struct {
	unheeded
	subscribed map[peer.ID]names
	mesh       map[string]names
}

func newWatch() *watch {
	return &watch{subscribed: map[peer.ID]names{}, mesh: map[string]names{}}
}

func (w *watch) OnNewOutboundStream(p peer.ID, proto protocol.ID) {
	lines.Emit("protocol", lines.Fields{"peer": p.String(), "protocol": string(proto)})
}

func (w *watch) OnClosedOutboundStream(p peer.ID) {
	for _, topic := range slices.Sorted(maps.Keys(w.subscribed[p])) {
		lines.Emit("peer_unsubscribed", lines.Fields{"peer": p.String(), "topic": topic})
	}
	delete(w.subscribed, p)
	for topic := range w.mesh {
		w.Prune(p, topic)
	}
}

func (w *watch) RecvRPC(rpc *pubsub.RPC) {
	from := rpc.From()
	for _, change := range rpc.GetSubscriptions() {
		topic := change.GetTopicid()
		_, before := w.subscribed[from][topic]
		if before == change.GetSubscribe() {
			continue
		}
		if before {
			delete(w.subscribed[from], topic)
			lines.Emit("peer_unsubscribed", lines.Fields{"peer": from.String(), "topic": topic})
			continue
		}
		if w.subscribed[from] == nil {
			w.subscribed[from] = names{}
		}
		w.subscribed[from][topic] = struct{}{}
		lines.Emit("peer_subscribed", lines.Fields{"peer": from.String(), "topic": topic})
	}
}

func (w *watch) Graft(p peer.ID, topic string) {
	if w.mesh[topic] == nil {
		w.mesh[topic] = names{}
	}
	if _, in := w.mesh[topic][p.String()]; !in {
		w.mesh[topic][p.String()] = struct{}{}
		w.tellMesh(topic)
	}
}

func (w *watch) Prune(p peer.ID, topic string) {
	if _, in := w.mesh[topic][p.String()]; in {
		delete(w.mesh[topic], p.String())
		w.tellMesh(topic)
	}
}

func (w *watch) tellMesh(topic string) {
	peers := slices.AppendSeq([]string{}, maps.Keys(w.mesh[topic]))
	slices.Sort(peers)
	lines.Emit("mesh", lines.Fields{"topic": topic, "peers": peers})
}
