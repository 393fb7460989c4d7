package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// stabilize lets an active view that joins made too large shrink: it asks the neighbours for their
// lists, and ends links that neither side needs.
func (t *Topic) stabilize() {
	if len(t.links) <= activeSize {
		return
	}
	asked := t.port.Now()
	for _, l := range t.links {
		t.say(l.id, pb.Neighbor_QUERY, l.kind) // with lists: they show triangles
	}
	t.after(listTimeout, func() { t.shrink(asked) })
}

func (t *Topic) shrink(asked time.Time) {
	answered := []*link{}
	for _, l := range t.links {
		if l.listedAt.After(asked) {
			answered = append(answered, l)
		}
	}
	slices.SortStableFunc(answered, func(a, b *link) int {
		return cmp.Or(cmp.Compare(b.links, a.links), cmp.Compare(b.rtt, a.rtt))
	})
	for _, l := range answered {
		if l.random > randomLinks || t.hadTime(l) {
			t.spare(l)
		}
	}
	for _, l := range answered {
		if slices.ContainsFunc(l.peers, func(id peer.ID) bool { return t.link(id) != nil }) {
			t.spare(l)
		}
	}
}

// spare ends a link unless it is needed.
func (t *Topic) spare(l *link) {
	needed := randomLinks
	if l.kind == pb.Neighbor_NEAR {
		needed = nearLinks
	}
	if len(t.links) > activeSize && t.count(l.kind) > needed && !slices.Contains(t.proved(), l) {
		t.dropLink(l.id, true, true)
	}
}
