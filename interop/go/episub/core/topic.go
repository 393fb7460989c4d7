package core

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/episub/pieces"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// Topic is one node's part in one topic. All of it is used by one goroutine.
type Topic struct {
	port    Port
	me      peer.ID
	name    string
	policy  payload.Policy
	rng     *rand.Rand
	started time.Time
	left    bool

	links     []*link // the active view
	passive   passiveView
	joining   joining
	growth    growth
	nearer    optimizing
	probe     probe
	shuffle   shuffling
	lost      reconnection
	requests  openRequests
	measuring map[peer.ID]*pb.Neighbor // requests that wait for a round trip
	answered  map[peer.ID]time.Time    // when a peer was sent DISCONNECT as no neighbour
	leaves    map[peer.ID]uint64       // the last LEAVE of each source
	rates     rates

	cache   cache
	lazy    lazyQueue
	missing missingList
	waits   waits
	leading leadingSource
	trees   trees
	pieces  *pieces.Machine // nil if all messages go whole
}

// NewTopic is a topic that its node has just subscribed to.
func NewTopic(port Port, me peer.ID, name string, policy payload.Policy, seed uint64) *Topic {
	t := &Topic{
		port: port, me: me, name: name, policy: policy, started: port.Now(),
		rng:       rand.New(rand.NewPCG(seed, 0)),
		answered:  map[peer.ID]time.Time{},
		measuring: map[peer.ID]*pb.Neighbor{},
		leaves:    map[peer.ID]uint64{},
		rates:     rates{},
		requests:  openRequests{},
	}
	t.growth = growth{asked: map[peer.ID]time.Time{}, refused: map[peer.ID]time.Time{}, stretch: 1}
	t.probe = probe{asked: map[peer.ID]bool{}, fruitless: probePatience}
	t.lost = reconnection{tries: map[peer.ID]int{}, rejoined: map[peer.ID]bool{}, failed: map[peer.ID]time.Time{}}
	t.cache = cache{known: map[string]*stored{}}
	t.lazy = lazyQueue{holders: map[string][]peer.ID{}, only: map[peer.ID][]string{}}
	t.missing = missingList{known: map[string]*announced{}, held: map[peer.ID]int{}}
	t.waits = waits{wait: firstWait, lags: map[peer.ID]time.Duration{}}
	t.trees = trees{known: map[string]*tree{}, source: sourceOf([]byte(me))}
	t.trees.hidden = sourceOf(binary.BigEndian.AppendUint64([]byte(string(me)+name), t.rng.Uint64()))
	t.every(func() time.Duration { return t.jittered(checkInterval) }, t.checkLinks)
	t.every(func() time.Duration { return t.jittered(stabilizeEvery) }, t.stabilize)
	t.every(func() time.Duration { return t.jittered(optimizeEvery) }, t.optimize)
	t.every(func() time.Duration { return t.jittered(recontactEvery) }, t.reconnect)
	t.every(func() time.Duration { return t.jittered(contactInterval) }, t.askContact)
	t.every(t.probePeriod, t.probePassive)
	t.scheduleGrowth()
	t.startShuffles()
	return t
}

// after calls f after a while, unless the topic was left.
func (t *Topic) after(d time.Duration, f func()) (stop func()) {
	return t.port.After(max(d, 0), func() {
		if !t.left {
			f()
		}
	})
}

// every calls f again and again.
func (t *Topic) every(period func() time.Duration, f func()) {
	t.after(period(), func() {
		f()
		t.every(period, f)
	})
}

// jittered is a period give or take a fifth.
func (t *Topic) jittered(period time.Duration) time.Duration {
	return time.Duration(float64(period) * (0.8 + 0.4*t.rng.Float64()))
}

// sample picks at most `count` of the ids.
func (t *Topic) sample(ids []peer.ID, count int) []peer.ID {
	ids = slices.Clone(ids)
	t.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:max(0, min(count, len(ids)))]
}

// Down is called when a peer can't be written to any more.
func (t *Topic) Down(id peer.ID) {
	delete(t.measuring, id)
	t.shuffle.forget(id)
	t.nearer.refused(t, id)
	t.refusedBy(id)
	if t.link(id) != nil {
		t.linksFailed(id)
	}
}

// Received handles one control message.
func (t *Topic) Received(from peer.ID, control *pb.Control) {
	if t.left || !t.rates.allow(from, control, t.port.Now()) {
		return
	}
	neighbor := t.link(from)
	if neighbor != nil {
		neighbor.heardAt = t.port.Now()
	} else if onlyNeighbors(from, control) {
		t.tellNoNeighbor(from)
		return
	}
	switch message := control.Message.(type) {
	case *pb.Control_GetNodes:
		t.onGetNodes(from, message.GetNodes)
	case *pb.Control_Nodes_:
		t.onNodes(from, message.Nodes_)
	case *pb.Control_GetTopics:
		t.port.Send(from, Topics(t.port.Subscriptions()))
	case *pb.Control_Topics_:
		t.onTopics(from, message.Topics_)
	case *pb.Control_Join:
		t.onJoin(from, message.Join)
	case *pb.Control_ForwardJoin:
		t.onForwardJoin(from, message.ForwardJoin)
	case *pb.Control_Neighbor:
		t.onNeighbor(from, message.Neighbor)
	case *pb.Control_Disconnect:
		t.onDisconnect(from, message.Disconnect)
	case *pb.Control_Leave:
		t.onLeave(from, message.Leave)
	case *pb.Control_Shuffle:
		t.onShuffle(from, message.Shuffle)
	case *pb.Control_ShuffleReply:
		t.onShuffleReply(from, message.ShuffleReply)
	case *pb.Control_Ihave:
		t.onIHave(neighbor, message.Ihave)
	case *pb.Control_Prune:
		t.onPrune(neighbor, message.Prune)
	case *pb.Control_Graft:
		t.onGraft(neighbor, message.Graft)
	case *pb.Control_Root:
		t.onRoot(neighbor, message.Root)
	default:
		if pieces.Is(control) {
			t.pieces.Receive(from, control)
		}
	}
}

// onlyNeighbors tells whether a message from others is answered with DISCONNECT: what belongs to
// broadcast, and walks but for the first step of a JOIN's.
func onlyNeighbors(from peer.ID, control *pb.Control) bool {
	switch message := control.Message.(type) {
	case *pb.Control_Ihave, *pb.Control_Prune, *pb.Control_Graft, *pb.Control_Root,
		*pb.Control_ForwardJoin, *pb.Control_Shuffle:
		return true
	case *pb.Control_Join:
		return string(message.Join.GetPeer().GetPeerID()) != string(from)
	}
	return pieces.Is(control)
}

// tellNoNeighbor answers what only a neighbour may send, at most once a second.
func (t *Topic) tellNoNeighbor(id peer.ID) {
	now := t.port.Now()
	if now.Sub(t.answered[id]) < tellInterval {
		return
	}
	if len(t.answered) >= maxContacts {
		clear(t.answered)
	}
	t.answered[id] = now
	t.port.Send(id, Disconnect(true))
}
