package core

import (
	"bytes"
	"container/heap"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// network is nodes in virtual time.
type network struct {
	t       *testing.T
	now     time.Time
	rng     *rand.Rand
	queue   queue
	order   int
	nodes   []*simNode
	byID    map[peer.ID]*simNode
	far     map[[2]peer.ID]time.Duration // latencies
	loss    float64                      // share of messages that are lost
	cut     func(a, b *simNode) bool
	sent    map[string]int
	pushes  int
	groups  map[peer.ID]string
	refused map[string]int
	altered func(from *simNode, control *pb.Control) *pb.Control // what arrives in its place
}

type simEvent struct {
	at    time.Time
	order int
	f     func()
}

type queue []simEvent

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || (q[i].at.Equal(q[j].at) && q[i].order < q[j].order)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newNetwork(t *testing.T, count int) *network {
	n := &network{
		t: t, now: time.Unix(1_700_000_000, 0), rng: rand.New(rand.NewPCG(1, 2)), sent: map[string]int{},
		groups: map[peer.ID]string{}, refused: map[string]int{},
		byID: map[peer.ID]*simNode{}, far: map[[2]peer.ID]time.Duration{},
		altered: func(_ *simNode, control *pb.Control) *pb.Control { return control },
		cut:     func(a, b *simNode) bool { return false },
	}
	for i := range count {
		n.start(i)
	}
	return n
}

func (n *network) start(i int) *simNode {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d", i))
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(digest[:]))
	if err != nil {
		n.t.Fatal(err)
	}
	id, _ := peer.IDFromPrivateKey(key)
	node := &simNode{n: n, id: id, key: key, up: map[peer.ID]bool{}, got: map[string]int{}}
	n.byID[id] = node
	node.topic = NewTopic(node, id, "t", payload.StrictSign, uint64(i), string(id))
	if len(n.nodes) > 0 {
		first := n.nodes[0]
		node.Dial(first.id, func(bool) { node.topic.Contact(first.id) })
	}
	n.nodes = append(n.nodes, node)
	return node
}

func (n *network) after(d time.Duration, f func()) {
	n.order++
	heap.Push(&n.queue, simEvent{n.now.Add(d), n.order, f})
}

func (n *network) run(d time.Duration) {
	end := n.now.Add(d)
	for len(n.queue) > 0 && !n.queue[0].at.After(end) {
		event := heap.Pop(&n.queue).(simEvent)
		n.now = event.at
		event.f()
	}
	n.now = end
}

func (n *network) node(id peer.ID) *simNode { return n.byID[id] }

// kill ends a node; its connections close.
func (n *network) kill(node *simNode) {
	node.frozen, node.dead = true, true
	for _, other := range n.nodes {
		if other.up[node.id] {
			delete(other.up, node.id)
			n.after(0, func() { other.topic.Down(node.id) })
		}
	}
}

// disconnect ends the connections that are cut, as TCP does when nothing is acknowledged.
func (n *network) disconnect() {
	for _, a := range n.nodes {
		for _, b := range n.nodes {
			if a.up[b.id] && n.cut(a, b) {
				delete(a.up, b.id)
				n.after(0, func() { a.topic.Down(b.id) })
			}
		}
	}
}

// alive are the nodes that run.
func (n *network) alive() []*simNode {
	found := []*simNode{}
	for _, node := range n.nodes {
		if !node.frozen {
			found = append(found, node)
		}
	}
	return found
}

type simNode struct {
	n            *network
	id           peer.ID
	key          crypto.PrivKey
	topic        *Topic
	up           map[peer.ID]bool
	got          map[string]int
	frozen, dead bool
	arriving     bool
}

func (s *simNode) Now() time.Time { return s.n.now }
func (s *simNode) After(d time.Duration, f func()) func() {
	stopped := false
	s.n.after(d, func() {
		if !s.frozen && !stopped {
			f()
		}
	})
	return func() { stopped = true }
}
func (s *simNode) Connected(id peer.ID) bool { return s.up[id] }
func (s *simNode) Dial(id peer.ID, f func(bool)) {
	other := s.n.node(id)
	s.After(3*s.latency(other), func() {
		up := other != nil && !other.dead && !s.n.cut(s, other)
		if up {
			s.up[id], other.up[s.id] = true, true
		}
		f(up)
	})
}
func (s *simNode) Release(peer.ID)                        {}
func (s *simNode) DialForOthers(id peer.ID, f func(bool)) { s.Dial(id, f) }
func (s *simNode) Group(id peer.ID) string                { return s.n.groups[id] }
func (s *simNode) Ping(id peer.ID, f func(time.Duration)) {
	other := s.n.node(id)
	rtt := 2 * s.latency(other)
	s.After(rtt, func() {
		if other == nil || other.frozen {
			rtt = 0
		}
		f(rtt)
	})
}

// latency is 10 to 60 ms for each pair.
func (s *simNode) latency(other *simNode) time.Duration {
	if other == nil {
		return time.Second
	}
	pair := [2]peer.ID{min(s.id, other.id), max(s.id, other.id)}
	if s.n.far[pair] == 0 {
		digest := sha256.Sum256([]byte(pair[0] + pair[1]))
		s.n.far[pair] = 10*time.Millisecond + time.Duration(digest[0])*200*time.Microsecond
	}
	return s.n.far[pair]
}

func (s *simNode) send(id peer.ID, f func(*simNode)) {
	other := s.n.node(id)
	if other == nil || s.n.cut(s, other) || s.n.rng.Float64() < s.n.loss {
		return
	}
	s.n.after(s.latency(other), func() {
		if !other.frozen {
			f(other)
		}
	})
}
func (s *simNode) Send(id peer.ID, controls ...*pb.Control) {
	for _, control := range controls {
		name := control.ProtoReflect().WhichOneof(control.ProtoReflect().Descriptor().Oneofs().Get(0)).Name()
		s.n.sent[string(name)]++
		control := s.n.altered(s, control)
		s.send(id, func(other *simNode) { other.topic.Received(s.id, control) })
	}
}
func (s *simNode) Push(id peer.ID, message *pb.Message, header *pb.Gossip) bool {
	s.n.pushes++
	s.send(id, func(other *simNode) {
		if err := other.topic.Gossip(s.id, message, header); err != nil {
			s.n.t.Error(err)
		}
	})
	return true
}
func (s *simNode) PushPiece(id peer.ID, piece *pb.Piece) {
	s.Send(id, &pb.Control{Message: &pb.Control_Piece{Piece: piece}})
}
func (s *simNode) ForgetPieces(peer.ID, string)   {}
func (s *simNode) ForgetAllPieces(peer.ID)        {}
func (s *simNode) Arriving() bool                 { return s.arriving }
func (s *simNode) Refused(_ peer.ID, name string) { s.n.refused[name]++ }
func (s *simNode) Info(id peer.ID) *pb.PeerInfo   { return &pb.PeerInfo{PeerID: []byte(id)} }
func (s *simNode) Learn(info *pb.PeerInfo) (peer.ID, bool) {
	id, err := peer.IDFromBytes(info.GetPeerID())
	return id, err == nil
}
func (s *simNode) Subscriptions() []string     { return []string{"t"} }
func (s *simNode) Deliver(message *pb.Message) { s.got[string(message.Data)]++ }
func (s *simNode) Linked([]peer.ID)            {}

// publish has each of the authors publish so many messages, and returns their data.
func (n *network) publish(authors []*simNode, each int, gap time.Duration) []string {
	all := []string{}
	for i := range each {
		for _, author := range authors {
			data := fmt.Sprintf("%s/%d/%d", author.id, i, n.now.UnixNano())
			message, err := payload.StrictSign.New(author.key, "t", []byte(data))
			if err != nil {
				n.t.Fatal(err)
			}
			author.got[data]++
			author.topic.Publish(message)
			all = append(all, data)
			n.run(gap)
		}
	}
	return all
}

// check fails unless all of these nodes got each message once.
func (n *network) check(nodes []*simNode, messages []string) {
	n.t.Helper()
	for _, node := range nodes {
		for _, data := range messages {
			if node.got[data] != 1 {
				n.t.Fatalf("%s got %d of %s", node.id, node.got[data], data)
			}
		}
	}
}

// checkViews fails unless the views of these nodes are symmetric, and no link leads elsewhere.
func (n *network) checkViews(nodes []*simNode, least int) {
	n.t.Helper()
	for _, node := range nodes {
		if len(node.topic.links) < least || len(node.topic.links) > activeBound {
			n.t.Errorf("%s has %d links", node.id, len(node.topic.links))
		}
		for _, l := range node.topic.links {
			other := n.node(l.id)
			if other.frozen || other.topic.link(node.id) == nil {
				n.t.Errorf("the link from %s to %s has one side", node.id, l.id)
			}
		}
	}
}
