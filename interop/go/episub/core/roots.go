package core

import (
	"bytes"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
	"episub-interop/internal/proofs"
)

// ROOT: a source floods it with its first message and rarely after that; nodes choose the neighbour that
// brought it first.

// chooseTree is the tree of our next message: our own, by the name source, once that stands, till then
// that of the nearest source, or "", the shared one. ROOT goes out first where one is due.
func (t *Topic) chooseTree(source string, named bool) string {
	tr := t.trees.known[source]
	switch {
	case tr == nil || !tr.own || !t.fresh(tr):
		if t.roomForTree() {
			t.sendRoot(t.trees.use(source))
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
	if !named { // it would seem to come from the root of any tree that it goes along
		return ""
	}
	return t.nearestTree()
}

func (t *Topic) sendRoot(tr *tree) {
	t.trees.use(tr.source)
	if !tr.own {
		tr.own, tr.parent, tr.cost, tr.offers = true, "", 0, nil
		tr.round = 0 // not after what others claim to be our round
		t.settleSoon(tr)
	}
	t.noteRoot(tr)
	tr.round = max(tr.round+1, uint64(t.port.Now().Unix()))
	tr.proof = proofs.Own(t.secret+t.name+tr.source, tr.round)
	t.flood([]*pb.TreeRoot{line(tr)}, "")
}

func (t *Topic) renewRoot(tr *tree) {
	if tr.carried > 0 {
		t.sendRoot(tr)
	}
}

func (t *Topic) noteRoot(tr *tree) {
	now := t.port.Now()
	if tr.rootAt.IsZero() || !t.fresh(tr) {
		tr.usableAt, tr.proven = now.Add(treeSetup), false
	}
	tr.rootAt, tr.carried = now, 0
}

// line is what a neighbour is sent of a tree.
func line(tr *tree) *pb.TreeRoot {
	return &pb.TreeRoot{
		Source: []byte(tr.source), Round: proto.Uint32(uint32(tr.round % proofs.Rounds)),
		Cost: proto.Uint32(tr.cost), Proof: tr.proof,
	}
}

func (t *Topic) flood(lines []*pb.TreeRoot, but peer.ID) {
	for _, l := range t.links {
		if l.id != but {
			t.port.Send(l.id, controlRoot(&pb.Root{Roots: lines}))
		}
	}
}

// offerTrees sends a new neighbour the trees that carry messages: others may be of dead sources.
func (t *Topic) offerTrees(l *link) {
	lines := []*pb.TreeRoot{}
	for _, tr := range t.trees.order {
		if t.fresh(tr) && (tr.own || (tr.parent != "" && tr.proven)) && len(lines) < maxIDs {
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
		bad := len(entry.Source) != sourceSize || len(entry.Proof) != proofs.Size
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
	now, round := t.port.Now(), uint64(entry.GetRound()%proofs.Rounds)
	tr := t.trees.known[string(entry.Source)]
	if tr != nil && (tr.own || now.Before(tr.serviceOf(l.id).excludedUntil)) {
		return false
	}
	o := offer{from: l.id, at: now, cost: min(entry.GetCost(), mostCost)}
	if tr != nil && bytes.Equal(entry.Proof, tr.proof) {
		if tr.offerOf(l.id) == nil {
			tr.offers = append(tr.offers, o)
		}
		return false
	}
	if tr != nil && t.fresh(tr) {
		// What was heard of the source first may be a liar's: it is believed while it serves, and
		// until the source itself says otherwise.
		served := tr.parent != "" && tr.serviceOf(tr.parent).missed == 0
		heard := served || now.Sub(tr.rootAt) < retryRoot
		believed := heard && sourceOf([]byte(l.id)) != string(entry.Source)
		over := proofs.Later(round, entry.Proof, tr.round, tr.proof)
		if over || (believed && !proofs.Later(tr.round, tr.proof, round, entry.Proof)) {
			return false // it is over, or not the source's
		}
		if t.faults(tr, l.id) >= adoptAfter && !(served && tr.parent == l.id) {
			return false // others bring this round, too
		}
	}
	tr = t.trees.use(string(entry.Source))
	t.noteRoot(tr)
	tr.round, tr.proof, tr.cost, tr.offers = round, entry.Proof, o.cost+t.linkDelay(l), []offer{o}
	tr.choosing.setEarliest(now.Add(chooseAfter))
	return true
}

// linkDelay is the microseconds that a message takes from a neighbour.
func (t *Topic) linkDelay(l *link) uint32 {
	if l.rtt == nil {
		return unknownDelay
	}
	return uint32(min(l.rtt.mean.Microseconds()/2, mostCost))
}

// requestRoot asks the source for another ROOT: no way to it is known to be good.
func (t *Topic) requestRoot(tr *tree) {
	to := tr.parent
	for _, l := range t.links {
		if to == "" && !contains(tr.children, l.id) && tr.serviceOf(l.id).failures == 0 {
			to = l.id
		}
	}
	if to == "" {
		return
	}
	tr.requested = tr.round
	t.port.Send(to, controlRoot(&pb.Root{Requests: []*pb.RootRequest{
		{Source: []byte(tr.source), Round: proto.Uint32(uint32(tr.round))},
	}}))
}

// onRootRequest passes a request on towards the source, once a round; the source answers with ROOT.
func (t *Topic) onRootRequest(from peer.ID, request *pb.RootRequest) {
	tr := t.trees.known[string(request.Source)]
	switch {
	case tr == nil || uint64(request.GetRound()) != tr.round%proofs.Rounds: // another round is on its way
	case tr.own:
		at := tr.rootAt.Add(leastRoot)
		tr.renewing.setEarliest(later(at, t.port.Now()))
	case tr.requested != tr.round && tr.parent != from:
		t.requestRoot(tr)
	}
}

// chooseParent takes the neighbour that brought ROOT first, or one much nearer; a parent that was hardly
// later stays.
func (t *Topic) chooseParent(tr *tree) {
	if tr.own {
		return
	}
	t.settleSoon(tr)
	best, first := peer.ID(""), time.Time{}
	for _, o := range tr.offers {
		switch {
		case t.link(o.from) == nil:
		case best == "":
			best, first = o.from, o.at
		case o.at.Sub(first) <= nearParent && tr.feasible(o.from) && t.muchNearer(o.from, best):
			best = o.from
		}
	}
	if best == "" {
		return
	}
	if tr.feasible(tr.parent) && !t.muchNearer(best, tr.parent) {
		best = tr.parent
	}
	delete(tr.asked, best) // said again: the last GRAFT may be lost, or forgotten with the tree
	t.setParent(tr, best)
}

// muchNearer: the link to one neighbour takes a fourth of the time of that to another, or less.
func (t *Topic) muchNearer(id, than peer.ID) bool {
	near, far := t.rtt(id), t.rtt(than)
	return near > 0 && far > 0 && near*muchNearer <= far
}
