package main

import (
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/episub/pieces"
	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
	"episub-interop/internal/records"
)

const reopenAfter = time.Second // a stream that broke while its connection stands

// remote is what is known of a peer.
type remote struct {
	out       *outgoing // nil while we have no stream to it
	connected bool
	sent      uint64 // sequence id of the last frame that was queued for it
	seen      window
	early     []func() // sends what waits for our first stream to it
	lane      pieces.Lane
	topics    map[string]bool
	answered  time.Time
	ours      bool      // we made the connection for a topic
	usedAt    time.Time // when a topic last asked for it
	releasing bool
}

// remote makes a record of a peer if there is none; of unconnected ones so many are kept.
func (n *node) remote(id peer.ID) *remote {
	if n.remotes[id] == nil {
		for other, known := range n.remotes {
			if len(n.remotes) < maxRemotes {
				break
			}
			if !known.connected {
				delete(n.remotes, other)
			}
		}
		// Above the ids of an earlier run.
		n.remotes[id] = &remote{sent: uint64(time.Now().UnixNano()), topics: map[string]bool{}}
	}
	return n.remotes[id]
}

func (n *node) writable(id peer.ID) bool {
	other := n.remotes[id]
	return other != nil && other.out != nil
}

// connected is called with each connection.
func (n *node) connected(id peer.ID) {
	other := n.remote(id)
	if n.faults.blocked[id] {
		go func() { _ = n.host.Network().ClosePeer(id) }()
		return
	}
	if !other.connected {
		other.connected = true
		lines.Emit("connected", lines.Fields{"peer": id.String()})
		go n.openStream(id)
	}
}

// opened is called when our stream to a peer is there. The first RPC announces our topics.
func (n *node) opened(id peer.ID, out *outgoing) bool {
	other := n.remote(id)
	if !other.connected || other.out != nil {
		return false
	}
	other.out = out
	lines.Emit("protocol", lines.Fields{"peer": id.String(), "protocol": protocolID})
	subscriptions := []*pb.Rpc_SubOpts{}
	subscribe := true
	for _, name := range n.subscriptions() {
		subscriptions = append(subscriptions, &pb.Rpc_SubOpts{Subscribe: &subscribe, Topicid: &name})
	}
	n.send(id, &pb.Rpc{Subscriptions: subscriptions}, nil)
	early := other.early
	other.early = nil
	for _, f := range early {
		f()
	}
	n.dialled(id, true)
	for name := range other.topics {
		if t := n.topics[name]; t != nil {
			t.Contact(id)
		}
	}
	return true
}

// closed is called when our stream to a peer has ended; another is opened while it is connected.
func (n *node) closed(id peer.ID, out *outgoing) {
	other := n.remotes[id]
	if other == nil || other.out != out {
		return
	}
	n.interrupted(id, other)
	n.later(reopenAfter, func() {
		if other.connected && other.out == nil {
			go n.openStream(id)
		}
	})
}

// interrupted: nothing can be written to a peer any more.
func (n *node) interrupted(id peer.ID, other *remote) {
	if other.out == nil {
		return
	}
	other.out.end()
	other.out, other.lane = nil, pieces.Lane{}
	for _, t := range n.topics {
		t.Down(id)
	}
}

// disconnected is called when a connection has ended, perhaps not the last.
func (n *node) disconnected(id peer.ID) {
	other := n.remotes[id]
	if other == nil || !other.connected || n.host.Network().Connectedness(id) == network.Connected {
		return
	}
	other.connected, other.ours = false, false
	for name := range other.topics {
		lines.Emit("peer_unsubscribed", lines.Fields{"peer": id.String(), "topic": name})
	}
	other.topics, other.seen = map[string]bool{}, window{}
	lines.Emit("disconnected", lines.Fields{"peer": id.String()})
	n.interrupted(id, other)
}

// subscribed notes that a peer is in a topic, or has left it.
func (n *node) subscribed(id peer.ID, topic string, is bool) {
	other := n.remote(id)
	if other.topics[topic] == is || topic == "" || len(topic) > maxTopic || len(other.topics) > maxRemotes {
		return
	}
	if !is {
		delete(other.topics, topic)
		lines.Emit("peer_unsubscribed", lines.Fields{"peer": id.String(), "topic": topic})
		return
	}
	other.topics[topic] = true
	lines.Emit("peer_subscribed", lines.Fields{"peer": id.String(), "topic": topic})
	if t := n.topics[topic]; t != nil && other.out != nil {
		t.Contact(id)
	}
}

// keepRecords keeps what identify brings, as others are told of peers by their records. On a host without
// identify they come from others alone.
func (n *node) keepRecords() {
	identified, err := n.host.EventBus().Subscribe(new(event.EvtPeerIdentificationCompleted))
	if err != nil {
		return // the host is closing
	}
	go func() {
		for e := range identified.Out() {
			records.Keep(n.host, e.(event.EvtPeerIdentificationCompleted).SignedPeerRecord)
		}
	}()
}

// Info is what goes to others about a peer.
func (p port) Info(id peer.ID) *pb.PeerInfo {
	if id == p.host.ID() {
		return &pb.PeerInfo{PeerID: []byte(id), SignedPeerRecord: p.record}
	}
	return &pb.PeerInfo{PeerID: []byte(id), SignedPeerRecord: records.Of(p.host, id)}
}

// Learn keeps the record of a peer, if it is valid.
func (p port) Learn(info *pb.PeerInfo) (peer.ID, bool) {
	id, err := peer.IDFromBytes(info.GetPeerID())
	if err != nil {
		return "", false
	}
	if signed := info.GetSignedPeerRecord(); id != p.host.ID() && len(signed) > 0 {
		records.Read(p.host, id, signed)
	}
	return id, true
}
