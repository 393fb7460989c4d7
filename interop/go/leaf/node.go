package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
)

const (
	protocolID    = "/episub/1.0.0"
	streamTimeout = 10 * time.Second

	// Limits of docs/wire.md section 9, in bytes or entries.
	maxControls  = 64
	maxPeers     = 64
	maxIDs       = 100
	replayWindow = 128

	// What a leaf makes do with.
	maxLinks     = 4
	wantedLinks  = 3
	maxQueued    = 4096 // RPCs for one peer
	cacheSize    = 1024 // messages
	retryJoin    = 2 * time.Second
	lazyInterval = 100 * time.Millisecond
	missingTick  = 500 * time.Millisecond
	missingTicks = 10
	tellInterval = time.Second
)

// node is one host in one topic. Everything but its host is used only by the goroutine of run.
type node struct {
	host   host.Host
	key    crypto.PrivKey
	record []byte
	topic  string
	tasks  chan func()
	done   chan struct{}

	source string // what trees call us
	trees  map[string]*tree

	peers map[peer.ID]*remote
	membership
	broadcast
}

func newNode(h host.Host, key crypto.PrivKey, record []byte, topic string) *node {
	n := &node{
		host: h, key: key, record: record, topic: topic,
		tasks: make(chan func(), 1024), done: make(chan struct{}),
		source: sourceOf([]byte(h.ID())),
		trees:  map[string]*tree{},
		peers:  map[peer.ID]*remote{},
	}
	n.membership = membership{
		active: map[peer.ID]*link{}, ttl: joinTTL,
		waiting: map[peer.ID][]func(){},
	}
	n.broadcast = broadcast{seen: map[string]*stored{}, missing: map[string]*announced{}}
	return n
}

// do has the goroutine of run call f.
func (n *node) do(f func()) {
	select {
	case n.tasks <- f:
	case <-n.done:
	}
}

// run handles tasks and timers until `done` is closed.
func (n *node) run() {
	lazy, missing, join := time.NewTicker(lazyInterval), time.NewTicker(missingTick), time.NewTicker(retryJoin)
	for {
		select {
		case f := <-n.tasks:
			f()
		case <-lazy.C:
			n.flushLazy()
		case <-missing.C:
			n.walkMissing()
		case <-join.C:
			n.join()
		case <-n.done:
			return
		}
	}
}

func (n *node) peer(id peer.ID) *remote {
	if n.peers[id] == nil {
		// Above the ids of an earlier run.
		n.peers[id] = &remote{sent: uint64(time.Now().UnixNano()), topics: map[string]bool{}}
	}
	return n.peers[id]
}

func (n *node) connected(id peer.ID, out chan []byte) {
	other := n.peer(id)
	other.out = out
	lines.Emit("connected", lines.Fields{"peer": id.String()})
	lines.Emit("protocol", lines.Fields{"peer": id.String(), "protocol": protocolID})
	subscribe := true
	n.send(id, &pb.Rpc{
		Subscriptions: []*pb.Rpc_SubOpts{{Subscribe: &subscribe, Topicid: &n.topic}},
	}, nil)
	for _, f := range n.waiting[id] {
		f()
	}
	delete(n.waiting, id)
	n.contacted(id)
}

func (n *node) disconnected(id peer.ID) {
	other := n.peers[id]
	if other == nil || n.host.Network().Connectedness(id) == network.Connected {
		return
	}
	delete(n.peers, id)
	if other.out != nil {
		close(other.out)
	}
	lines.Emit("disconnected", lines.Fields{"peer": id.String()})
	n.unlink(id)
}

// received handles one RPC: subscriptions, control messages, then the payload.
func (n *node) received(id peer.ID, rpc *pb.Rpc, frame *pb.EpisubFrame) {
	other := n.peer(id)
	for _, change := range rpc.Subscriptions {
		n.announced(id, other, change.GetTopicid(), change.GetSubscribe())
	}
	if frame != nil && (frame.GetTopic() == "" || !other.seen.accepts(frame.GetSeq())) {
		frame = nil
	}
	if frame != nil && frame.GetTopic() == n.topic {
		for _, control := range frame.Control[:min(len(frame.Control), maxControls)] {
			n.handle(id, control)
		}
	}
	hops, along := uint32(0), ""
	if len(rpc.Publish) == 1 && frame.GetTopic() == rpc.Publish[0].GetTopic() {
		header := frame.GetGossip()
		hops = header.GetHops()
		if header.GetOwnTree() {
			along = sourceOf(rpc.Publish[0].From)
		} else if len(header.GetAlong()) == sourceSize {
			along = string(header.GetAlong())
		}
	}
	for _, message := range rpc.Publish {
		if message.GetTopic() == n.topic {
			n.gossip(id, message, hops, along)
		}
	}
}

func (n *node) announced(id peer.ID, other *remote, topic string, subscribed bool) {
	if other.topics[topic] == subscribed {
		return
	}
	if !subscribed {
		delete(other.topics, topic)
		lines.Emit("peer_unsubscribed", lines.Fields{"peer": id.String(), "topic": topic})
		return
	}
	other.topics[topic] = true
	lines.Emit("peer_subscribed", lines.Fields{"peer": id.String(), "topic": topic})
	if topic == n.topic {
		n.contacted(id)
	}
}

// handle acts on one control message.
func (n *node) handle(id peer.ID, control *pb.Control) {
	switch message := control.Message.(type) {
	case *pb.Control_GetNodes:
		n.tell("in", "get_nodes", id)
		n.control(id, &pb.Control{Message: &pb.Control_Nodes_{Nodes_: &pb.Nodes{Peers: n.neighbors(id), Ttl: proto.Uint32(joinTTL)}}})
	case *pb.Control_Nodes_:
		n.tell("in", "nodes", id)
		n.nodes(id, message.Nodes_)
	case *pb.Control_GetTopics:
		n.tell("in", "get_topics", id)
		n.control(id, &pb.Control{Message: &pb.Control_Topics_{Topics_: &pb.Topics{Topics: []string{n.topic}}}})
	case *pb.Control_Join:
		n.tell("in", "join", id)
		n.passJoin(id, message.Join)
	case *pb.Control_Neighbor:
		n.tell("in", "neighbor_"+message.Neighbor.GetRole().String(), id)
		n.neighbor(id, message.Neighbor)
	case *pb.Control_Disconnect:
		n.tell("in", "disconnect", id)
		n.unlink(id)
	case *pb.Control_Ihave:
		n.tell("in", "ihave", id)
		n.ihave(id, message.Ihave)
	case *pb.Control_Prune:
		n.tell("in", "prune", id)
		if link := n.active[id]; link != nil {
			n.prune(link, id, message.Prune)
		}
	case *pb.Control_Graft:
		n.tell("in", "graft", id)
		n.graft(id, message.Graft)
	case *pb.Control_Root:
		n.tell("in", "root", id)
		n.root(id, message.Root)
	}
	// A leaf passes no walks on but JOINs: FORWARDJOIN, SHUFFLE and LEAVE end here.
}

// control sends control messages in a frame of their own.
func (n *node) control(id peer.ID, messages ...*pb.Control) {
	if n.peer(id).out == nil { // its stream came before ours is open
		n.dialThen(id, func() { n.control(id, messages...) })
		return
	}
	for _, message := range messages {
		name := string(message.ProtoReflect().WhichOneof(oneof).Name())
		if neighbor := message.GetNeighbor(); neighbor != nil {
			name += "_" + neighbor.GetRole().String()
		}
		n.tell("out", name, id)
	}
	n.send(id, &pb.Rpc{}, &pb.EpisubFrame{Topic: &n.topic, Control: messages})
}

var oneof = (&pb.Control{}).ProtoReflect().Descriptor().Oneofs().ByName("message")

// disconnect ends or refuses a link.
func (n *node) disconnect(id peer.ID, alive bool) {
	n.control(id, &pb.Control{Message: &pb.Control_Disconnect{Disconnect: &pb.Disconnect{Alive: &alive}}})
}

// tellNoNeighbor answers what only a neighbour may send, at most once a second.
func (n *node) tellNoNeighbor(id peer.ID) {
	if other := n.peer(id); time.Since(other.lastTold) >= tellInterval {
		other.lastTold = time.Now()
		n.disconnect(id, true)
	}
}

func (n *node) tell(direction, message string, id peer.ID) {
	lines.Emit("control", lines.Fields{"direction": direction, "message": message, "peer": id.String()})
}

// sample picks at most `count` of the ids.
func sample(ids []peer.ID, count int) []peer.ID {
	slices.Sort(ids)
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(count, len(ids))]
}
