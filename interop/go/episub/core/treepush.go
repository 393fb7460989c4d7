package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

const (
	floodHops  = 2 // links that a message of a source without a tree is pushed over to everybody
	adoptAfter = 2 // messages in a row that another neighbour had to bring
)

// treeOfGossip is the source whose tree a message came along; "" is the default tree.
func (t *Topic) treeOfGossip(header *pb.Gossip, source string) string {
	own, along := header.GetOwnTree(), header.GetAlong()
	switch {
	case own && along == nil && source != "":
		return source
	case len(along) == sourceSize && !own:
		return string(along)
	}
	// It may have come through a neighbour without trees of single sources.
	if tr := t.trees.known[source]; tr != nil && t.stands(tr) {
		return source
	}
	return ""
}

// onTreeCopy draws the conclusions from a new message for its tree, and returns the neighbours to
// push it to.
func (t *Topic) onTreeCopy(s *stored, from *link) []peer.ID {
	tr := t.trees.known[s.along]
	if s.source == s.along && tr == nil {
		tr = t.useTree(s.along)
	}
	everybody := []peer.ID{}
	for _, l := range t.links {
		everybody = append(everybody, l.id)
	}
	if tr != nil {
		tr.carried++
		tr.used = t.port.Now()
	}
	switch {
	case tr != nil && s.goesDown():
		tr.proven = !tr.rootAt.IsZero()
		if from != nil {
			t.onCopyFrom(tr, s, from.id)
		}
		return slices.Clone(tr.children)
	case s.hops < floodHops:
		return everybody
	case tr == nil:
		return nil
	case tr.parent == "":
		return slices.Clone(tr.children)
	}
	return append([]peer.ID{tr.parent}, tr.children...)
}

// onCopyFrom: the first copy of a message that came down the tree says which neighbour is the parent.
func (t *Topic) onCopyFrom(tr *tree, s *stored, from peer.ID) {
	asked := contains(s.asked, from)
	switch {
	case tr.own:
	case from == tr.parent:
		tr.misses = 0
		if asked { // it doesn't know that we are its child
			t.port.Send(from, controlGraft(&pb.Graft{Sources: sources(tr)}))
		}
	case asked:
		tr.misses++
		adopt := !contains(tr.children, from)
		if tr.parent != "" && tr.safe {
			adopt = tr.misses >= adoptAfter && tr.feasible(from)
		}
		if adopt {
			t.adopt(tr, from, true)
			if !tr.safe {
				t.requestRoot(tr)
			}
		} else if tr.misses >= adoptAfter && tr.parent != "" {
			tr.misses = 0
			t.port.Send(tr.parent, controlGraft(&pb.Graft{Sources: sources(tr)}))
			t.requestRoot(tr)
		}
	case contains(tr.leaving, from):
	case tr.parent == "" || tr.feasible(from): // it pushes, and is faster than the parent
		t.adopt(tr, from, false)
	default:
		t.port.Send(from, controlPrune(&pb.Prune{Sources: sources(tr)}))
	}
}

// announceAtOnce tells the neighbours that have us as their standby, and, if the message had to be
// asked for, our parent; it returns them.
func (t *Topic) announceAtOnce(s *stored, holders []peer.ID) []peer.ID {
	tr := t.trees.known[s.along]
	if tr == nil {
		return nil
	}
	to := []peer.ID{}
	if s.goesDown() {
		for _, id := range tr.standbyOf {
			if !contains(holders, id) {
				to = append(to, id)
			}
		}
	}
	if len(s.asked) > 0 && tr.parent != "" && !contains(holders, tr.parent) {
		to = with(to, tr.parent)
	}
	for _, id := range to {
		t.announce(id, []string{s.id})
	}
	return to
}

// onTreeDuplicate answers a neighbour that pushes beside the parent with PRUNE.
func (t *Topic) onTreeDuplicate(l *link, s *stored) {
	tr := t.trees.known[s.along]
	if !s.goesDown() || tr == nil || contains(s.asked, l.id) {
		return // not from the root down: it says nothing about the tree
	}
	if l.id == tr.parent {
		tr.misses = 0
		return
	}
	if contains(tr.leaving, l.id) {
		tr.leaving = without(tr.leaving, l.id)
	} else {
		tr.children = without(tr.children, l.id)
	}
	t.port.Send(l.id, controlPrune(&pb.Prune{Sources: sources(tr)}))
}
