package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// stabilizeRound lets an active view that is too large, as joins make it, shrink to A: it ends random
// links that rings no longer need, asks the neighbours that it could spare for lists, and then ends links
// that neither side needs.
func (t *Topic) stabilizeRound() {
	if !t.listsAsked.IsZero() {
		t.shrink(t.listsAsked)
		t.listsAsked = time.Time{}
		if t.isTooLarge() {
			t.stabilizing.next()
		}
		return
	}
	for _, l := range slices.Clone(t.links) {
		if l.kind == random { // the other ends have found their own, too
			t.spare(l)
		}
	}
	if !t.isTooLarge() {
		return
	}
	t.listsAsked = t.port.Now()
	kept := t.kept()
	for _, l := range t.links {
		if !contains(kept, l.id) {
			t.query(l, false)
		}
	}
	t.stabilizing.set(t.port.Now().Add(listTimeout))
}

// shrink ends links first to peers that have more than C_rand random ones, then sides of triangles; to
// those with the most links first, and of these the farthest.
func (t *Topic) shrink(asked time.Time) {
	answered := []*link{}
	for _, id := range t.sample(t.neighbors(), len(t.links)) {
		if l := t.link(id); !l.listedAt.Before(asked) {
			answered = append(answered, l)
		}
	}
	slices.SortStableFunc(answered, func(a, b *link) int {
		return cmp.Or(cmp.Compare(b.links, a.links), cmp.Compare(b.distance(), a.distance()))
	})
	for _, l := range answered {
		if l.random > randomLinks {
			t.spare(l)
		}
	}
	for _, l := range answered {
		if slices.ContainsFunc(l.peers, func(id peer.ID) bool { return t.link(id) != nil }) {
			t.spare(l)
		}
	}
}

// spare ends a link, unless this node needs it for its size, its rings or its kinds.
func (t *Topic) spare(l *link) {
	if t.link(l.id) == nil || !t.isTooLarge() || contains(t.kept(), l.id) {
		return
	}
	if l.kind == random || t.count(near) > nearLinks {
		t.evict(l.id)
	}
}
