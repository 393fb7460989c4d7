package core

import (
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
	port   Port
	me     peer.ID
	name   string
	policy payload.Policy
	rng    *rand.Rand
	secret string // rounds of our own trees are proven by it
	left   bool

	links     []*link // the active view
	passive   passiveView
	dialTime  *roundTrip
	joining   joining
	joiners   table[time.Time] // when peers asked for nodes
	search    search
	requests  map[peer.ID]*timer       // peers that are dialled or asked for a link
	refused   table[time.Time]         // when a peer refused a link, ended one or didn't answer
	measuring map[peer.ID]*pb.Neighbor // requests of others that wait for a round trip
	probed    map[peer.ID]bool         // passive peers asked in this round; true once they answered
	found     int                      // passive peers that were measured for the first time
	foundNew  bool                     // one of the first of them was since the last round
	shuffle   shuffling
	answered  table[time.Time] // when a peer was sent DISCONNECT as no neighbour
	leaves    table[uint64]    // the last LEAVE of each source
	rates     rates

	growing, shuffles, checks, probes, searches, reconnects, stabilizing rounds
	listsAsked                                                           time.Time // in a round of stabilizing

	firstLink time.Time
	cache     cache
	lazy      lazyQueue
	missing   missingList
	debtors   table[promises] // former neighbours
	leading   leadingSource
	trees     trees
	pieces    *pieces.Machine // nil if all messages go whole
}

// NewTopic is a topic that its node has just subscribed to.
func NewTopic(port Port, me peer.ID, name string, policy payload.Policy, seed uint64, secret string) *Topic {
	t := &Topic{
		port: port, me: me, name: name, policy: policy, secret: secret,
		rng:       rand.New(rand.NewPCG(seed, 0)),
		joiners:   newTable[time.Time](maxJoiners),
		requests:  map[peer.ID]*timer{},
		refused:   newTable[time.Time](maxRefused),
		measuring: map[peer.ID]*pb.Neighbor{},
		probed:    map[peer.ID]bool{},
		answered:  newTable[time.Time](maxContacts),
		leaves:    newTable[uint64](maxSources),
		debtors:   newTable[promises](maxContacts),
		rates:     rates{},
		cache:     cache{open: map[string]*message{}, known: map[string]*message{}},
	}
	t.joining = joining{asked: newTable[time.Time](maxAsked), timer: timer{t: t, f: t.joinTimeout}}
	t.search = search{lost: newTable[int](maxLost)}
	t.shuffle = shuffling{answered: newTable[answered](maxAnswered), reply: timer{t: t, f: t.noReply}}
	t.lazy = lazyQueue{timer: timer{t: t, f: t.flushLazy}, failed: newTable[failure](maxContacts)}
	t.missing.timer = timer{t: t, f: t.askMissing}
	t.trees = newTrees(t)
	second := time.Second
	t.growing = t.rounds(5*second/2, 2560*second, t.growRound)
	t.shuffles = t.rounds(60*second, 32*60*second, t.shuffleRound)
	t.checks = t.rounds(10*second, 20*second, t.checkLinks)
	t.probes = t.rounds(10*second, 640*second, t.probeRound)
	t.searches = t.rounds(5*second, 2560*second, t.searchRound)
	t.reconnects = t.rounds(15*second, 15*second, t.reconnect)
	t.stabilizing = t.rounds(10*second, 160*second, t.stabilizeRound)
	for _, upkeep := range []*rounds{&t.growing, &t.shuffles, &t.checks, &t.probes, &t.searches} {
		upkeep.start()
	}
	return t
}

// after calls f after a while, unless it is stopped before, or the topic was left.
func (t *Topic) after(d time.Duration, f func()) (stop func()) {
	stopped := false
	cancel := t.port.After(max(d, 0), func() {
		if !t.left && !stopped {
			f()
		}
	})
	return func() {
		stopped = true
		cancel()
	}
}

// dial connects to a peer and calls f, with whether that succeeded.
func (t *Topic) dial(id peer.ID, f func(up bool)) { t.dialled(t.port.Dial, id, f) }

// dialForOthers is dial where only another node's message asks for it.
func (t *Topic) dialForOthers(id peer.ID, f func(up bool)) { t.dialled(t.port.DialForOthers, id, f) }

func (t *Topic) dialled(dial func(peer.ID, func(bool)), id peer.ID, f func(bool)) {
	began, known := t.port.Now(), t.port.Connected(id)
	dial(id, func(up bool) {
		if t.left {
			return
		}
		if up && !known {
			t.dialTime = updated(t.dialTime, t.port.Now().Sub(began))
		} else if !up {
			t.passive.remove(id)
		}
		f(up)
	})
}

// withDialTime adds the time that the other side may need for a dial of its own.
func (t *Topic) withDialTime(d time.Duration) time.Duration {
	if t.dialTime == nil {
		return d
	}
	return d + t.dialTime.mean + 4*t.dialTime.spread
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
	t.shuffle.answered.take(id)
	t.onRefusal(id)
	if t.link(id) != nil {
		t.failed(id, false)
	}
}

// Received handles one control message.
func (t *Topic) Received(from peer.ID, control *pb.Control) {
	if t.left || !t.rates.allow(from, control, t.port.Now()) {
		return
	}
	neighbor := t.link(from)
	if onlyNeighbors(from, control) {
		if neighbor == nil {
			t.tellNoNeighbor(from)
			return
		}
		neighbor.heardAt = t.port.Now()
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
			t.onPieces(neighbor, control)
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
	if now.Sub(t.answered.of[id]) >= tellInterval {
		t.answered.put(id, now)
		t.port.Send(id, Disconnect(true))
	}
}
