package core

import (
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Parents, standbys and children in the trees of single sources. A new parent takes its place at once; the
// former one is left a little later.

// onTreeMessage: a message has come down a tree from its source.
func (t *Topic) onTreeMessage(tr *tree, m *message) {
	if tr.own {
		return
	}
	from, parent, pulled, failed := m.sender, tr.parent, contains(m.asked, m.sender), false
	for _, l := range t.links {
		told, is := tr.asked[l.id]
		switch {
		case l.id != parent && (!is || told != announces):
		case l.id == from && !pulled, l.id != parent && contains(m.holders, l.id):
			tr.noteServed(l.id)
		case l.id != from && tr.noteMissed(l.id, t.port.Now()):
			t.settleSoon(tr)
			failed = failed || l.id == parent
		}
	}
	if failed {
		tr.parent = ""
	}
	told, is := tr.asked[from]
	switch {
	case t.link(from) == nil:
	case from == tr.parent:
		if pulled { // the last one was lost
			t.graftParent(tr)
		}
	case pulled:
		t.onPulled(tr, from)
	case is && told == pushes: // a former parent
	case tr.parent == "" || tr.feasible(from):
		// It pushes to us as its child, and is faster than the parent that we know.
		tr.asked[from] = pushes
		t.setParent(tr, from)
	default:
		t.port.Send(from, controlPrune(&pb.Prune{Sources: sources(tr)}))
	}
	if failed && tr.parent == "" {
		t.findParent(tr)
		t.tell(false, tr)
	}
}

// faults are what a neighbour missed, and the answers that it owes: who withholds in one tree may in all.
func (t *Topic) faults(tr *tree, id peer.ID) int {
	count := tr.serviceOf(id).missed
	if l := t.link(id); l != nil {
		count += l.unanswered(t.port.Now(), t.patience(l))
	}
	return count
}

// onPulled: a neighbour had to be asked for a message; it may be a better parent.
func (t *Topic) onPulled(tr *tree, from peer.ID) {
	missed := tr.serviceOf(tr.parent).missed
	// Each cycle of parents has a link that isn't feasible: look for another way at once.
	lost := !tr.feasible(tr.parent) && !contains(tr.children, from)
	switch {
	case lost || (t.faults(tr, tr.parent) >= adoptAfter && tr.feasible(from)):
		t.setParent(tr, from)
	case tr.parent != "" && missed > 0 && missed%adoptAfter == 0:
		if other := t.anotherParent(tr); other != "" {
			t.setParent(tr, other)
		} else {
			t.graftParent(tr)
		}
	default:
		return
	}
	if !tr.feasible(from) {
		t.requestRoot(tr)
	}
}

// anotherParent replaces the parent if that has sent nothing since it first missed a message: it may be
// gone. "" if it stays, or no other is nearer to the source.
func (t *Topic) anotherParent(tr *tree) peer.ID {
	l := t.link(tr.parent)
	if l != nil && !l.payloadAt.Before(tr.serviceOf(tr.parent).missedSince) {
		return ""
	}
	for _, o := range t.candidates(tr) {
		if o.from != tr.parent && tr.feasible(o.from) {
			return o.from
		}
	}
	return ""
}

func (t *Topic) graftParent(tr *tree) {
	t.port.Send(tr.parent, controlGraft(&pb.Graft{Sources: sources(tr)}))
}

// setParent has a neighbour push to us.
func (t *Topic) setParent(tr *tree, id peer.ID) {
	if tr.parent != id {
		if _, told := tr.asked[id]; told || tr.parent != "" {
			t.settleSoon(tr)
		}
		tr.parent, tr.children = id, without(tr.children, id)
	}
	t.tell(false, tr)
}

// findParent: the parent is lost. The next one is the first that brought ROOT, a feasible one if there is
// any.
func (t *Topic) findParent(tr *tree) {
	tr.parent = ""
	for _, o := range t.candidates(tr) {
		if tr.parent == "" || (!tr.feasible(tr.parent) && tr.feasible(o.from)) {
			tr.parent = o.from
		}
	}
	if tr.parent != "" {
		t.settleSoon(tr)
	}
	if !tr.feasible(tr.parent) {
		t.requestRoot(tr)
	}
}

// settleSoon has former parents left, and standbys chosen, once all ROOTs are there.
func (t *Topic) settleSoon(tr *tree) {
	tr.settleAt = t.port.Now().Add(treeSettle)
	t.trees.settling.setEarliest(tr.settleAt)
}

func (t *Topic) settle() {
	due := []*tree{}
	for _, tr := range t.trees.order {
		if tr.settleAt.IsZero() {
			continue
		}
		if tr.settleAt.After(t.port.Now()) {
			t.trees.settling.setEarliest(tr.settleAt)
			continue
		}
		tr.settleAt = time.Time{}
		due = append(due, tr)
	}
	t.tell(true, due...)
}

// roles are what neighbours are to do in a tree that has settled: standbys are those that brought ROOT
// first after the parent, better those that are it already.
func (t *Topic) roles(tr *tree) map[peer.ID]role {
	fit := slices.DeleteFunc(t.candidates(tr), func(o offer) bool { return o.from == tr.parent })
	arrived := func(o offer) time.Time {
		if _, told := tr.asked[o.from]; told {
			return o.at.Add(-keepStandby)
		}
		return o.at
	}
	slices.SortStableFunc(fit, func(a, b offer) int { return arrived(a).Compare(arrived(b)) })
	found := map[peer.ID]role{}
	for _, o := range fit[:min(len(fit), standbys)] {
		found[o.from] = announces
	}
	if tr.parent != "" {
		found[tr.parent] = pushes
	}
	return found
}

// tell sends GRAFT to the parents in trees; once they have settled also to standbys, and PRUNE to all
// others.
func (t *Topic) tell(settled bool, of ...*tree) {
	type orders struct{ push, announce, leave, forget [][]byte }
	to := map[peer.ID]*orders{}
	for _, tr := range of {
		roles := maps.Clone(tr.asked)
		if tr.parent != "" {
			roles[tr.parent] = pushes
		}
		if settled {
			roles = t.roles(tr)
		}
		for _, l := range t.links {
			had, was := tr.asked[l.id]
			role, is := roles[l.id]
			if was == is && had == role {
				continue
			}
			if to[l.id] == nil {
				to[l.id] = &orders{}
			}
			order, source := to[l.id], []byte(tr.source)
			switch {
			case is && role == pushes:
				order.push = append(order.push, source)
				continue
			case is:
				order.announce = append(order.announce, source)
			}
			switch {
			case was && had == pushes:
				order.leave = append(order.leave, source)
			case was:
				order.forget = append(order.forget, source)
			}
		}
		tr.asked = roles
	}
	for _, l := range t.links {
		order := to[l.id]
		if order == nil {
			continue
		}
		if len(order.push)+len(order.announce) > 0 {
			t.port.Send(l.id, controlGraft(&pb.Graft{Sources: order.push, Standby: order.announce}))
		}
		if len(order.leave)+len(order.forget) > 0 {
			t.port.Send(l.id, controlPrune(&pb.Prune{Sources: order.leave, Standby: order.forget}))
		}
	}
}

// named are the trees of these sources that are known here.
func (t *Topic) named(sources [][]byte) []*tree {
	found := []*tree{}
	for _, source := range sources[:min(len(sources), maxIDs)] {
		if tr := t.trees.known[string(source)]; tr != nil {
			found = append(found, tr)
		}
	}
	return found
}

func (t *Topic) graftTrees(l *link, message *pb.Graft) {
	lost := []*tree{}
	for _, tr := range t.named(message.Sources) {
		tr.children = with(tr.children, l.id)
		tr.standbyOf = without(tr.standbyOf, l.id)
		if tr.parent == l.id { // it lost its way and turns to us
			delete(tr.asked, l.id)
			t.findParent(tr)
			lost = append(lost, tr)
		}
	}
	t.tell(false, lost...)
	for _, tr := range t.named(message.Standby) {
		tr.standbyOf = with(tr.standbyOf, l.id)
	}
}

func (t *Topic) pruneTrees(from peer.ID, message *pb.Prune) {
	for _, tr := range t.named(message.Sources) {
		tr.children = without(tr.children, from)
		if tr.parent == "" && !tr.own {
			t.settleSoon(tr)
		}
	}
	for _, tr := range t.named(message.Standby) {
		tr.standbyOf = without(tr.standbyOf, from)
	}
}

// unlinkTrees forgets a neighbour in all trees, and replaces it where it was the parent.
func (t *Topic) unlinkTrees(id peer.ID) {
	lost := []*tree{}
	for _, tr := range t.trees.order {
		if _, told := tr.asked[id]; told {
			t.settleSoon(tr)
		}
		delete(tr.asked, id)
		delete(tr.services, id)
		tr.forgetOffer(id)
		tr.children, tr.standbyOf = without(tr.children, id), without(tr.standbyOf, id)
		if tr.parent != id {
			continue
		}
		tr.parent = ""
		if t.fresh(tr) {
			t.findParent(tr)
			lost = append(lost, tr)
		}
	}
	t.tell(false, lost...)
}
