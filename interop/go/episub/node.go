package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"google.golang.org/protobuf/proto"

	"episub-interop/episub/core"
	"episub-interop/episub/pieces"
	"episub-interop/internal/lines"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
	"episub-interop/internal/proofs"
)

const (
	protocolID    = "/episub/1.0.0"
	streamTimeout = 10 * time.Second
	dialTimeout   = 5 * time.Second
	pingTimeout   = 3 * time.Second
	maxDials      = 64
	maxForOthers  = 32 // of those, on the word of others
	releaseGrace  = 15 * time.Second

	// Limits of docs/wire.md section 9, in bytes or entries.
	maxTopic    = 1024
	maxControls = 64
	maxRecords  = 32
	maxRemotes  = 4096
	maxEarly    = 16 // frames that wait for a stream
)

// node is one host. All but the host is used by the goroutine of run alone.
type node struct {
	host   host.Host
	ping   *ping.PingService
	key    crypto.PrivKey
	record []byte
	policy payload.Policy
	// Bytes from which on messages go in pieces; 0: all go whole.
	threshold int
	tasks     chan func()
	soon      []func() // after the task that is under way
	done      chan struct{}

	topics    map[string]*core.Topic
	neighbors map[string][]peer.ID // in each topic
	remotes   map[peer.ID]*remote
	dials     map[peer.ID]*dialling
	faults    faults
	counts    counts
	arriving  int   // large RPCs that have begun to come in, and aren't validated
	plan      *plan // if a script of test-plans is run
}

func newNode(h host.Host, key crypto.PrivKey, record []byte, policy payload.Policy) *node {
	return &node{
		host: h, key: key, record: record, policy: policy, ping: ping.NewPingService(h),
		tasks: make(chan func(), 1024), done: make(chan struct{}),
		topics: map[string]*core.Topic{}, neighbors: map[string][]peer.ID{}, remotes: map[peer.ID]*remote{},
		dials: map[peer.ID]*dialling{}, faults: newFaults(), counts: newCounts(),
	}
}

// do has the goroutine of run call f.
func (n *node) do(f func()) {
	select {
	case n.tasks <- f:
	case <-n.done:
	}
}

// run handles tasks until `done` is closed.
func (n *node) run() {
	for {
		select {
		case f := <-n.tasks:
			f()
		case <-n.done:
			return
		}
		for len(n.soon) > 0 {
			f := n.soon[0]
			n.soon = n.soon[1:]
			f()
		}
	}
}

// later has f called after a while, unless it is stopped before; one that is just due may come yet.
func (n *node) later(after time.Duration, f func()) (stop func()) {
	timer := time.AfterFunc(after, func() { n.do(f) })
	return func() { timer.Stop() }
}

// subscribe joins a topic: its subscribers among the connected peers are contacts.
func (n *node) subscribe(name string) {
	if n.topics[name] != nil {
		return
	}
	t := core.NewTopic(port{n, name}, n.host.ID(), name, n.policy, rand.Uint64(), proofs.Secret(n.key))
	if n.threshold > 0 {
		t.TakePieces()
	}
	n.topics[name] = t
	n.announceTopics(true, name)
	for id, other := range n.remotes {
		if other.out != nil && other.topics[name] {
			t.Contact(id)
		}
	}
	lines.Emit("subscribed", lines.Fields{"topic": name})
}

// unsubscribe leaves a topic, with a proof that it is this node that does.
func (n *node) unsubscribe(name string) {
	t := n.topics[name]
	if t == nil {
		return
	}
	proof, err := core.Prove(n.key, name, time.Now())
	if err != nil {
		proof = nil // DISCONNECT says it to the neighbours
	}
	t.Leave(proof)
	delete(n.topics, name)
	n.announceTopics(false, name)
	lines.Emit("unsubscribed", lines.Fields{"topic": name})
}

func (n *node) subscriptions() []string {
	names := []string{}
	for name := range n.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// publish sends a message of our own to a topic that this node is subscribed to.
func (n *node) publish(topic string, data []byte) error {
	message, err := n.policy.New(n.key, topic, data)
	if err != nil {
		return err
	}
	if n.topics[topic] == nil {
		return errNotSubscribed
	}
	if n.threshold == 0 || n.policy != payload.StrictSign || proto.Size(message) < n.threshold {
		n.topics[topic].Publish(message)
		return nil
	}
	cut, err := pieces.NewCut(n.key, n.policy, message)
	if err == nil {
		n.topics[topic].PublishCut(message, cut)
	}
	return err
}

// measure pings a peer; 0 if there was no answer in time.
func (n *node) measure(id peer.ID, f func(rtt time.Duration)) {
	muted := n.faults.muted[id]
	go func() {
		ctx, cancel := context.WithTimeout(network.WithNoDial(context.Background(), "ping"), pingTimeout)
		defer cancel()
		rtt := time.Duration(0)
		if result := <-n.ping.Ping(ctx, id); result.Error == nil && !muted {
			rtt = result.RTT
		}
		n.do(func() { f(rtt) })
	}()
}

// port is what a topic sees of its node.
type port struct {
	*node
	name string
}

func (p port) Now() time.Time                           { return time.Now() }
func (p port) After(d time.Duration, f func()) func()   { return p.later(d, f) }
func (p port) Connected(id peer.ID) bool                { return p.writable(id) }
func (p port) Dial(id peer.ID, f func(bool))            { p.dial(id, f) }
func (p port) DialForOthers(id peer.ID, f func(bool))   { p.dialForOthers(id, f) }
func (p port) Release(id peer.ID)                       { p.release(id) }
func (p port) Ping(id peer.ID, f func(time.Duration))   { p.measure(id, f) }
func (p port) Send(id peer.ID, controls ...*pb.Control) { p.sendControl(p.name, id, controls...) }
func (p port) Arriving() bool                           { return p.arriving > 0 }
func (p port) Subscriptions() []string                  { return p.subscriptions() }
func (p port) Deliver(message *pb.Message)              { p.delivered(message) }

func (p port) Push(id peer.ID, message *pb.Message, header *pb.Gossip) bool {
	frame := &pb.EpisubFrame{Topic: &p.name, Gossip: header}
	return p.send(id, &pb.Rpc{Publish: []*pb.Message{message}}, frame)
}

func (p port) Linked(ids []peer.ID) {
	p.neighbors[p.name] = ids
	names := []string{}
	for _, id := range ids {
		names = append(names, id.String())
	}
	slices.Sort(names)
	lines.Emit("mesh", lines.Fields{"topic": p.name, "peers": names})
}
