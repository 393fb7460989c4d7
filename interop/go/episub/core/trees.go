package core

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/payload"
)

// role is what a neighbour is asked to do with each message of a source.
type role int

const (
	pushes role = iota
	announces
)

// offer is a neighbour's copy of the last ROOT.
type offer struct {
	from peer.ID
	at   time.Time
	cost uint32
}

// service is how a neighbour has done what it was asked to.
type service struct {
	missed        int // one more for each message that it missed, one less for each other
	missedSince   time.Time
	failures      int
	excludedUntil time.Time
}

// tree is this node's part in the tree of one source.
type tree struct {
	source           string
	own              bool
	proven           bool // it has carried a message
	round, requested uint64
	proof            []byte // of this round
	cost             uint32
	rootAt, usableAt time.Time
	carried          int              // messages since the last ROOT
	parent           peer.ID          // pushes to us; "" if none does
	asked            map[peer.ID]role // what neighbours were told, former parents included
	offers           []offer          // in the order of arrival
	children         []peer.ID
	standbyOf        []peer.ID
	services         map[peer.ID]*service // of neighbours that missed something
	choosing         timer
	renewing         timer
	settleAt         time.Time // zero if it has settled
}

// trees are the trees that this node takes part in, by source.
type trees struct {
	t        *Topic
	known    map[string]*tree
	order    []*tree // the least recently used first
	source   string  // what trees call this node
	hidden   string  // what they call it where messages have no author
	settling timer
}

func newTrees(t *Topic) trees {
	drawn := binary.BigEndian.AppendUint64([]byte(string(t.me)+t.name), t.rng.Uint64())
	return trees{
		t: t, known: map[string]*tree{}, source: sourceOf([]byte(t.me)), hidden: sourceOf(drawn),
		settling: timer{t: t, f: t.settle},
	}
}

func sourceOf(author []byte) string { return payload.Source(author) }

// sources are the names of trees in a message.
func sources(of ...*tree) [][]byte {
	found := [][]byte{}
	for _, tr := range of {
		found = append(found, []byte(tr.source))
	}
	return found
}

func (t *Topic) fresh(tr *tree) bool { return t.port.Now().Sub(tr.rootAt) <= treeIdle }

func (t *Topic) stands(tr *tree) bool {
	return !tr.rootAt.IsZero() && t.fresh(tr) && !t.port.Now().Before(tr.usableAt)
}

// use is the tree of a source, made if there is none. Those that carried nothing go first, then one of the
// neighbour that brought most of them.
func (x *trees) use(source string) *tree {
	tr := x.known[source]
	if tr == nil {
		tr = &tree{source: source, asked: map[peer.ID]role{}, services: map[peer.ID]*service{}}
		tr.choosing = timer{t: x.t, f: func() { x.t.chooseParent(tr) }}
		tr.renewing = timer{t: x.t, f: func() { x.t.renewRoot(tr) }}
		if len(x.known) >= keptTrees {
			x.forgetOne()
		}
		x.known[source] = tr
	}
	x.order = append(slices.DeleteFunc(x.order, func(other *tree) bool { return other == tr }), tr)
	return tr
}

func (x *trees) forgetOne() {
	brought := map[peer.ID]int{}
	for _, tr := range x.order {
		if !tr.own {
			brought[tr.parent]++
		}
	}
	var victim *tree
	for _, tr := range x.order {
		worse := victim == nil || (victim.proven && !tr.proven) ||
			(victim.proven == tr.proven && brought[tr.parent] > brought[victim.parent])
		if !tr.own && worse {
			victim = tr
		}
	}
	if victim != nil {
		victim.choosing.cancel()
		delete(x.known, victim.source)
		x.order = slices.DeleteFunc(x.order, func(other *tree) bool { return other == victim })
	}
}

// roomForTree: no more than so many trees carry messages at a time; of one parent half of them count, or
// invented sources took all the room.
func (t *Topic) roomForTree() bool {
	share := standTrees
	if len(t.links) > 1 {
		share /= 2
	}
	brought, standing := map[peer.ID]int{}, 0
	for _, tr := range t.trees.order {
		if !t.fresh(tr) {
			continue
		}
		if tr.own {
			standing++
		} else if tr.proven {
			if brought[tr.parent]++; brought[tr.parent] <= share {
				standing++
			}
		}
	}
	return standing < standTrees
}

// nearestTree is the source with a standing tree that is nearest; "" if there is none.
func (t *Topic) nearestTree() string {
	var best *tree
	for _, tr := range t.trees.order {
		if tr.proven && t.link(tr.parent) != nil && t.stands(tr) && (best == nil || tr.cost < best.cost) {
			best = tr
		}
	}
	if best == nil {
		return ""
	}
	return best.source
}

func (tr *tree) offerOf(id peer.ID) *offer {
	for i := range tr.offers {
		if tr.offers[i].from == id {
			return &tr.offers[i]
		}
	}
	return nil
}

func (tr *tree) forgetOffer(id peer.ID) {
	tr.offers = slices.DeleteFunc(tr.offers, func(o offer) bool { return o.from == id })
}

// feasible: a neighbour is nearer to the source than this node is, by the costs of the last ROOT: such
// parents form no cycle (Babel, RFC 8966, section 2.4).
func (tr *tree) feasible(id peer.ID) bool {
	o := tr.offerOf(id)
	return o != nil && o.cost < tr.cost && !contains(tr.children, id)
}

// candidates are the neighbours that brought the last ROOT, in their order, without children.
func (t *Topic) candidates(tr *tree) []offer {
	return slices.DeleteFunc(slices.Clone(tr.offers), func(o offer) bool {
		return t.link(o.from) == nil || contains(tr.children, o.from)
	})
}

func (tr *tree) serviceOf(id peer.ID) service {
	if s := tr.services[id]; s != nil {
		return *s
	}
	return service{}
}

// noteMissed: the parent or a standby missed a message; whether it has failed by that.
func (tr *tree) noteMissed(id peer.ID, now time.Time) bool {
	s := tr.services[id]
	if s == nil {
		s = &service{}
		tr.services[id] = s
	}
	if s.missed == 0 {
		s.missedSince = now
	}
	s.missed++
	if s.missed < failedAfter || now.Sub(s.missedSince) < failedWithin {
		return false
	}
	s.excludedUntil = now.Add(min(mostFailedFor, failedFor<<min(s.failures, 3)))
	s.failures++
	s.missed = 0
	tr.forgetOffer(id)
	return true
}

// noteServed: a neighbour pushed or announced a message.
func (tr *tree) noteServed(id peer.ID) {
	if s := tr.services[id]; s != nil {
		s.missed = max(0, s.missed-1)
	}
}

// noteLate: a neighbour pushed what another had to be asked for. It gives way, and doesn't fail.
func (tr *tree) noteLate(id peer.ID) {
	if s := tr.services[id]; s != nil {
		s.missed = min(s.missed, adoptAfter)
	}
}
