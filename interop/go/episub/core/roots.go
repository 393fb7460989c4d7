package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

const (
	chooseAfter   = 10 * time.Millisecond
	nearParent    = 5 * time.Millisecond
	muchNearer    = 4
	retryRoot     = time.Second
	renewRoot     = 20 * time.Second // after so many messages
	renewMessages = 3
	refreshRoot   = treeIdle * 8 / 10
	leastRoot     = 5 * time.Second // between ROOTs, however many nodes ask
	mostCost      = 60_000_000      // microseconds
	unknownDelay  = 50_000
)

// chooseTree is our own tree, by the name source, if our next message may go along it, or else "".
func (t *Topic) chooseTree(source string) string {
	tr := t.trees.known[source]
	switch {
	case tr == nil || !tr.own || !t.fresh(tr):
		if t.roomForTree() {
			t.sendRoot(t.useTree(source))
		}
	case t.stands(tr) && len(tr.children) > 0:
		age := t.port.Now().Sub(tr.rootAt)
		if age >= refreshRoot || (age >= renewRoot && tr.carried >= renewMessages) {
			t.sendRoot(tr)
		}
		return source
	case t.port.Now().Sub(tr.rootAt) >= retryRoot:
		t.sendRoot(tr)
	}
	return ""
}

func (t *Topic) sendRoot(tr *tree) {
	if !tr.own {
		tr.own, tr.parent, tr.hops, tr.cost = true, "", 0, 0
		tr.round = uint64(t.started.Unix()) // not after what others claim to be our round
	}
	t.noteRoot(tr)
	tr.round++
	t.flood([]*pb.TreeRoot{line(tr)}, "")
}

func (t *Topic) noteRoot(tr *tree) {
	now := t.port.Now()
	if !t.stands(tr) {
		tr.usableAt = now.Add(treeSetup)
	}
	tr.rootAt, tr.carried = now, 0
}

// line is what a neighbour is sent of a tree.
func line(tr *tree) *pb.TreeRoot {
	return &pb.TreeRoot{
		Source: []byte(tr.source), Round: proto.Uint64(tr.round),
		Hops: proto.Uint32(min(tr.hops+1, maxHops)), Cost: proto.Uint32(tr.cost),
	}
}

func (t *Topic) flood(lines []*pb.TreeRoot, but peer.ID) {
	for _, l := range t.links {
		if l.id != but {
			t.port.Send(l.id, controlRoot(&pb.Root{Roots: lines}))
		}
	}
}

// offerTrees sends a new neighbour the trees that stand here.
func (t *Topic) offerTrees(l *link) {
	lines := []*pb.TreeRoot{}
	for _, tr := range t.trees.known {
		if t.fresh(tr) && (tr.own || (tr.parent != "" && (tr.carried > 0 || tr.renewed))) && len(lines) < maxIDs {
			lines = append(lines, line(tr))
		}
	}
	if len(lines) > 0 {
		t.port.Send(l.id, controlRoot(&pb.Root{Roots: lines}))
	}
}

func (t *Topic) onRoot(l *link, message *pb.Root) {
	for _, request := range message.Requests[:min(len(message.Requests), maxIDs)] {
		if t.rates.allowLine(l.id, t.port.Now()) {
			t.onRootRequest(l.id, request)
		}
	}
	on := []*pb.TreeRoot{}
	for _, entry := range message.Roots[:min(len(message.Roots), maxIDs)] {
		bad := len(entry.Source) != sourceSize || entry.GetHops() < 1 || entry.GetHops() > maxHops
		if !bad && t.rates.allowLine(l.id, t.port.Now()) && t.onTreeRoot(l, entry) {
			on = append(on, line(t.trees.known[string(entry.Source)]))
		}
	}
	if len(on) > 0 {
		t.flood(on, l.id)
	}
}

// onTreeRoot notes one line; true if its round is new.
func (t *Topic) onTreeRoot(l *link, entry *pb.TreeRoot) bool {
	now := t.port.Now()
	tr := t.trees.known[string(entry.Source)]
	if string(entry.Source) == t.trees.source || (tr != nil && tr.own) {
		return false
	}
	o := offer{from: l.id, at: now, hops: entry.GetHops(), cost: min(entry.GetCost(), mostCost)}
	round := entry.GetRound()
	if tr != nil && (round == tr.round || (t.fresh(tr) && round < tr.round)) {
		if t.fresh(tr) && round == tr.round && tr.offerOf(l.id) == nil {
			tr.offers = append(tr.offers, o)
			t.considerNewLink(tr, l, o)
		}
		return false
	}
	renewed := tr != nil && t.fresh(tr) && tr.proven
	tr = t.useTree(string(entry.Source))
	t.noteRoot(tr)
	tr.renewed = renewed
	tr.round, tr.offers = round, []offer{o}
	t.takeOffer(tr, o)
	if !tr.choosing {
		tr.choosing = true
		t.after(chooseAfter, func() {
			tr.choosing = false
			t.chooseParent(tr)
		})
	}
	return true
}

func (t *Topic) takeOffer(tr *tree, o offer) {
	tr.hops, tr.cost = o.hops, o.cost+t.linkDelay(o.from)
}

func (t *Topic) linkDelay(id peer.ID) uint32 {
	if l := t.link(id); l != nil && l.rtt > 0 {
		return uint32(min(l.rtt.Microseconds()/2, mostCost))
	}
	return unknownDelay
}

// considerNewLink: a link that is newer than the last ROOT may be part of a much faster way.
func (t *Topic) considerNewLink(tr *tree, l *link, o offer) {
	if !l.since.After(tr.rootAt) {
		return
	}
	for _, child := range tr.children {
		if child == l.id {
			return
		}
	}
	if uint64(o.cost)+uint64(t.linkDelay(l.id)) <= uint64(tr.cost)*8/10 {
		t.takeOffer(tr, o)
		t.adopt(tr, l.id, true)
	}
}

// requestRoot asks the source for another ROOT: no way to it is known to be good.
func (t *Topic) requestRoot(tr *tree) {
	to := tr.parent
	for _, l := range t.links {
		if to != "" {
			break
		}
		if !contains(tr.children, l.id) {
			to = l.id
		}
	}
	if to == "" {
		return
	}
	tr.requested = tr.round
	t.port.Send(to, controlRoot(&pb.Root{Requests: []*pb.RootRequest{
		{Source: []byte(tr.source), Round: proto.Uint64(tr.round)},
	}}))
}

func (t *Topic) onRootRequest(from peer.ID, request *pb.RootRequest) {
	tr := t.trees.known[string(request.Source)]
	if tr == nil || request.GetRound() < tr.round {
		return // a newer round is on its way
	}
	if !tr.own {
		if tr.requested < tr.round && tr.parent != from {
			t.requestRoot(tr)
		}
		return
	}
	if !tr.renewing {
		tr.renewing = true
		t.after(leastRoot-t.port.Now().Sub(tr.rootAt), func() {
			tr.renewing = false
			if tr.carried > 0 {
				t.sendRoot(tr)
			}
		})
	}
}
