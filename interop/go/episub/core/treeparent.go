package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Parents and children in the trees of single sources.

func contains(ids []peer.ID, id peer.ID) bool { return slices.Contains(ids, id) }

func sources(of ...*tree) [][]byte {
	found := [][]byte{}
	for _, tr := range of {
		found = append(found, []byte(tr.source))
	}
	return found
}

// chooseParent takes the neighbour that brought the ROOT first, or a much nearer one that was as fast;
// the parent stays if it brought it hardly later.
func (t *Topic) chooseParent(tr *tree) {
	if tr.own {
		return
	}
	defer t.settleLater(tr)
	var first *offer
	for i := range tr.offers {
		if t.link(tr.offers[i].from) != nil {
			first = &tr.offers[i]
			break
		}
	}
	if first == nil {
		return
	}
	parent := first.from
	for i := range tr.offers {
		o := &tr.offers[i]
		near := o.at.Sub(first.at) <= nearParent && t.muchNearer(o.from, parent)
		if near && t.link(o.from) != nil && t.ahead(o, tr.hops) {
			parent = o.from
		}
	}
	kept := tr.offerOf(tr.parent)
	if kept != nil && t.link(tr.parent) != nil && kept.at.Sub(first.at) <= chooseAfter &&
		t.ahead(kept, tr.hops) && !t.muchNearer(parent, tr.parent) {
		parent = tr.parent
	}
	if parent == tr.parent { // the last GRAFT may be lost, or forgotten with the tree
		t.port.Send(parent, controlGraft(&pb.Graft{Sources: sources(tr)}))
	}
	t.adopt(tr, parent, true)
	tr.safe = tr.feasible(parent)
}

// muchNearer: the link to one neighbour takes a fourth of the time of that to another, or less.
func (t *Topic) muchNearer(id, than peer.ID) bool {
	near, far := t.link(id), t.link(than)
	return near != nil && far != nil && near.rtt > 0 && near.rtt*muchNearer <= far.rtt
}

// ahead: a neighbour got the ROOT over fewer links, or over as many and has the smaller id.
func (t *Topic) ahead(o *offer, hops uint32) bool {
	return o.hops < maxHops && (o.hops-1 < hops || (o.hops-1 == hops && o.from < t.me))
}

// adopt has a neighbour push to us; the former parent is left a little later.
func (t *Topic) adopt(tr *tree, id peer.ID, graft bool) {
	former := tr.parent
	if former == id {
		return
	}
	tr.parent, tr.safe, tr.misses = id, tr.feasible(id), 0
	tr.children, tr.leaving = without(tr.children, id), without(tr.leaving, id)
	if graft {
		t.port.Send(id, controlGraft(&pb.Graft{Sources: sources(tr)}))
	}
	if former != "" && t.link(former) != nil {
		tr.leaving = with(tr.leaving, former)
	}
	t.settleLater(tr)
}

// settleLater leaves former parents and chooses standbys, once all ROOTs are there.
func (t *Topic) settleLater(tr *tree) {
	leaving := slices.Clone(tr.leaving)
	t.after(treeSettle, func() {
		for _, id := range leaving {
			if contains(tr.leaving, id) && id != tr.parent && t.link(id) != nil {
				t.port.Send(id, controlPrune(&pb.Prune{Sources: sources(tr)}))
			}
			tr.leaving = without(tr.leaving, id)
		}
		if !tr.own && t.trees.known[tr.source] == tr {
			t.chooseStandbys(tr)
		}
	})
}

func (t *Topic) chooseStandbys(tr *tree) {
	chosen := []peer.ID{}
	for _, o := range tr.offers {
		fit := t.link(o.from) != nil && o.from != tr.parent && !contains(tr.children, o.from)
		if fit && len(chosen) < standbys {
			chosen = append(chosen, o.from)
		}
	}
	for _, id := range chosen {
		if !contains(tr.standbys, id) {
			t.port.Send(id, controlGraft(&pb.Graft{Standby: sources(tr)}))
		}
		t.waits.standby(id)
	}
	for _, id := range tr.standbys {
		if !contains(chosen, id) && t.link(id) != nil && id != tr.parent {
			t.port.Send(id, controlPrune(&pb.Prune{Standby: sources(tr)}))
		}
	}
	tr.standbys = chosen
}

// replaceParent takes the next neighbour, and asks for a ROOT if that way may be a circle.
func (t *Topic) replaceParent(tr *tree) {
	tr.parent = ""
	if next := t.nextParent(tr); next != "" {
		t.adopt(tr, next, true)
	}
	if tr.parent == "" || !tr.safe {
		t.requestRoot(tr)
	}
}

func (t *Topic) graftTrees(l *link, message *pb.Graft) {
	for _, source := range message.Sources[:min(len(message.Sources), maxIDs)] {
		if tr := t.trees.known[string(source)]; tr != nil {
			tr.children = with(tr.children, l.id)
			tr.standbyOf = without(tr.standbyOf, l.id)
			if tr.parent == l.id { // it lost its way and turns to us
				t.replaceParent(tr)
			}
		}
	}
	for _, source := range message.Standby[:min(len(message.Standby), maxIDs)] {
		if tr := t.trees.known[string(source)]; tr != nil {
			tr.standbyOf = with(tr.standbyOf, l.id)
		}
	}
}

func (t *Topic) pruneTrees(from peer.ID, message *pb.Prune) {
	for _, source := range message.Sources[:min(len(message.Sources), maxIDs)] {
		if tr := t.trees.known[string(source)]; tr != nil {
			tr.children = without(tr.children, from)
		}
	}
	for _, source := range message.Standby[:min(len(message.Standby), maxIDs)] {
		if tr := t.trees.known[string(source)]; tr != nil {
			tr.standbyOf = without(tr.standbyOf, from)
		}
	}
}

// unlinkTrees forgets a neighbour in all trees, and replaces it where it was the parent.
func (t *Topic) unlinkTrees(id peer.ID) {
	for _, tr := range t.trees.known {
		tr.children, tr.standbyOf = without(tr.children, id), without(tr.standbyOf, id)
		tr.leaving = without(tr.leaving, id)
		tr.offers = slices.DeleteFunc(tr.offers, func(o offer) bool { return o.from == id })
		if contains(tr.standbys, id) {
			tr.standbys = without(tr.standbys, id)
			t.settleLater(tr)
		}
		if tr.parent == id && t.fresh(tr) {
			t.replaceParent(tr)
		} else if tr.parent == id {
			tr.parent = ""
		}
	}
}
