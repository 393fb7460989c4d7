package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/payload"
)

const (
	sourceSize = 8 // bytes
	maxTrees   = 64
	keptTrees  = 2 * maxTrees
	standbys   = 2

	treeSetup  = 500 * time.Millisecond // until a tree is used
	treeSettle = 500 * time.Millisecond // until a former parent is left, and standbys are asked
	treeIdle   = 120 * time.Second
)

// offer is a neighbour's copy of the last ROOT.
type offer struct {
	from peer.ID
	at   time.Time
	hops uint32
	cost uint32
}

// tree is this node's part in the tree of one source.
type tree struct {
	source           string
	own              bool
	proven           bool // it has carried a message
	round, requested uint64
	hops, cost       uint32
	rootAt, usableAt time.Time
	used             time.Time
	carried          int  // messages since the last ROOT
	renewed          bool // the last ROOT came after a message: the source is there
	misses           int  // messages in a row that the parent didn't push
	renewing         bool
	choosing         bool
	parent           peer.ID
	safe             bool // the parent closes no circle
	offers           []offer
	standbys         []peer.ID // ours
	leaving          []peer.ID // former parents
	children         []peer.ID
	standbyOf        []peer.ID
}

// trees are the trees that this node takes part in, by source.
type trees struct {
	known  map[string]*tree
	source string // what trees call this node
	hidden string // what they call it where messages have no author
}

func sourceOf(author []byte) string { return payload.Source(author) }

func (t *Topic) fresh(tr *tree) bool { return t.port.Now().Sub(tr.rootAt) <= treeIdle }

func (t *Topic) stands(tr *tree) bool {
	return !tr.rootAt.IsZero() && t.fresh(tr) && !t.port.Now().Before(tr.usableAt)
}

// useTree is the tree of a source, made if there is none. Those that carried nothing go first.
func (t *Topic) useTree(source string) *tree {
	tr := t.trees.known[source]
	if tr == nil {
		if len(t.trees.known) >= keptTrees {
			var victim *tree
			for _, other := range t.trees.known {
				worse := victim == nil || (victim.proven && !other.proven) ||
					(victim.proven == other.proven && other.used.Before(victim.used))
				if !other.own && worse {
					victim = other
				}
			}
			if victim != nil {
				delete(t.trees.known, victim.source)
			}
		}
		tr = &tree{source: source, safe: true}
		t.trees.known[source] = tr
	}
	tr.used = t.port.Now()
	return tr
}

// roomForTree: no more than so many trees carry messages at a time.
func (t *Topic) roomForTree() bool {
	standing := 0
	for _, tr := range t.trees.known {
		if (tr.own || tr.proven) && t.fresh(tr) {
			standing++
		}
	}
	return standing < maxTrees
}

// nearestTree is the source with a standing tree that is nearest; "" if there is none.
func (t *Topic) nearestTree() string {
	var best *tree
	for _, tr := range t.trees.known {
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

// feasible: a neighbour may be the parent if it is nearer to the source than this node is, by the
// costs of the last ROOT. While all nodes keep to that, parents form no circle.
func (tr *tree) feasible(id peer.ID) bool {
	o := tr.offerOf(id)
	return o != nil && o.cost < tr.cost && !slices.Contains(tr.children, id)
}

// nextParent is the first neighbour that brought the last ROOT, a feasible one if there is any.
func (t *Topic) nextParent(tr *tree) peer.ID {
	left := peer.ID("")
	for _, o := range tr.offers {
		if t.link(o.from) == nil || slices.Contains(tr.children, o.from) {
			continue
		}
		if tr.feasible(o.from) {
			return o.from
		}
		if left == "" {
			left = o.from
		}
	}
	return left
}

func (t *Topic) isTreeParent(id peer.ID) bool {
	for _, tr := range t.trees.known {
		if tr.parent == id && t.fresh(tr) {
			return true
		}
	}
	return false
}

func without(ids []peer.ID, id peer.ID) []peer.ID {
	return slices.DeleteFunc(ids, func(other peer.ID) bool { return other == id })
}

func with(ids []peer.ID, id peer.ID) []peer.ID {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}
