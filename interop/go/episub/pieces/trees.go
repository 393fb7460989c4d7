package pieces

import (
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	maxTrees    = 64
	treeIdle    = 120 * time.Second
	maxChildren = 2 // in one tree
	failedFor   = 600 * time.Second
)

// peers is a list without doubles, in the order in which they were added.
type peers []peer.ID

func (p peers) has(id peer.ID) bool { return slices.Contains(p, id) }

func (p *peers) add(id peer.ID) {
	if !p.has(id) {
		*p = append(*p, id)
	}
}

// remove tells whether it was there.
func (p *peers) remove(id peer.ID) bool {
	index := slices.Index(*p, id)
	if index >= 0 {
		*p = slices.Delete(*p, index, index+1)
	}
	return index >= 0
}

// offer is a neighbour that has a place, or had one.
type offer struct {
	from peer.ID
	rank int
}

// waiter asked for a place before we had one.
type waiter struct {
	id    peer.ID
	wants []want
}

// tree is this node's part in the narrow tree of one source. Ranks keep it free of circles: a child's is
// larger than its parent's, and a node takes a larger one than it has only while it has no children.
type tree struct {
	source      string
	own         bool
	rank        int     // milliseconds from the source, roughly; kept while there is no parent
	parent      peer.ID // "" if there is none
	former      peer.ID // the parent before: pieces may be on their way from it
	pushedAt    time.Time
	children    peers
	waiting     []waiter
	offers      []offer // in the order in which they came
	refused     peers   // have no place after all
	failed      map[peer.ID]time.Time
	announcers  peers   // of the newest message: those are known to pass on
	asking      peer.ID // was asked for a place, and hasn't answered
	askingUntil time.Time
	retryAt     time.Time // zero if nothing is to be asked again
	retries     int       // in vain, since there was a parent
	usedAt      time.Time
	carried     bool // a piece has come along it
}

func newTree(source string, own bool, now time.Time) *tree {
	return &tree{source: source, own: own, pushedAt: now, usedAt: now, failed: map[peer.ID]time.Time{}}
}

// stands tells whether pieces come here, so that there may be children.
func (t *tree) stands() bool { return t.own || t.parent != "" }

func (t *tree) taken() int { return len(t.children) + len(t.waiting) }

func (t *tree) offer(id peer.ID) (int, bool) {
	for _, o := range t.offers {
		if o.from == id {
			return o.rank, true
		}
	}
	return 0, false
}

// setOffer keeps the rank that a neighbour offers a place with; only where none is known, if so asked.
func (t *tree) setOffer(id peer.ID, rank int, ifNew bool) {
	for i := range t.offers {
		if t.offers[i].from == id {
			if !ifNew {
				t.offers[i].rank = rank
			}
			return
		}
	}
	t.offers = append(t.offers, offer{id, rank})
}

// candidates are those of the neighbours that may have a place for us: while we have children, only
// nearer ones. Those that announced the last message come first.
func (t *tree) candidates(neighbors []peer.ID) []offer {
	found := []offer{}
	for _, announced := range []bool{true, false} {
		for _, o := range t.offers {
			_, failed := t.failed[o.from]
			if t.announcers.has(o.from) == announced && (o.rank < t.rank || len(t.children) == 0) &&
				slices.Contains(neighbors, o.from) && !t.refused.has(o.from) && !failed &&
				!t.children.has(o.from) && o.from != t.parent {
				found = append(found, o)
			}
		}
	}
	return found
}

func (t *tree) forgetFailures(now time.Time) {
	maps.DeleteFunc(t.failed, func(_ peer.ID, at time.Time) bool { return now.Sub(at) >= failedFor })
}

func (t *tree) stopWaiting(id peer.ID) bool {
	before := len(t.waiting)
	t.waiting = slices.DeleteFunc(t.waiting, func(w waiter) bool { return w.id == id })
	return len(t.waiting) < before
}

// remove forgets a neighbour.
func (t *tree) remove(id peer.ID) {
	t.children.remove(id)
	t.stopWaiting(id)
	t.offers = slices.DeleteFunc(t.offers, func(o offer) bool { return o.from == id })
	t.refused.remove(id)
	t.announcers.remove(id)
	delete(t.failed, id)
	if t.parent == id {
		t.parent = ""
	}
	if t.former == id {
		t.former = ""
	}
	if t.asking == id {
		t.asking, t.askingUntil = "", time.Time{}
	}
}

// trees are those that this node takes part in, the most recently used last.
type trees []*tree

func (ts trees) get(source string) *tree {
	for _, t := range ts {
		if t.source == source {
			return t
		}
	}
	return nil
}

// use is the tree of a source, made if there is none or it was idle for too long.
func (ts *trees) use(source string, now time.Time) *tree {
	t := ts.get(source)
	if t == nil || now.Sub(t.usedAt) > treeIdle {
		made := newTree(source, t != nil && t.own, now)
		if t != nil {
			made.offers, made.carried = t.offers, t.carried
		}
		ts.drop(t)
		t = made
	} else {
		ts.drop(t)
	}
	t.usedAt = now
	*ts = append(*ts, t)
	if len(*ts) > maxTrees {
		ts.drop((*ts)[:maxTrees].leastUseful())
	}
	return t
}

// leastUseful is the tree to drop first. Anyone can offer and give places in the trees of made-up
// sources, which carry nothing; nobody can make up one of our own.
func (ts trees) leastUseful() *tree {
	for _, useless := range []func(*tree) bool{
		func(t *tree) bool { return !t.stands() },
		func(t *tree) bool { return !t.own && !t.carried },
		func(t *tree) bool { return !t.own },
	} {
		if at := slices.IndexFunc(ts, useless); at >= 0 {
			return ts[at]
		}
	}
	return ts[0]
}

func (ts *trees) drop(t *tree) {
	*ts = slices.DeleteFunc(*ts, func(other *tree) bool { return other == t })
}

// hasRoom tells whether a tree has a place. In all trees together a node has half the children that it
// may have in each, and as many more as one tree has: nobody is inside of all.
func (ts trees) hasRoom(t *tree) bool {
	if t.taken() >= maxChildren {
		return false
	}
	if t.own {
		return true
	}
	used, taken := 0, 0
	for _, other := range ts {
		if other.stands() || other.asking != "" {
			used++
			taken += other.taken()
		}
	}
	return taken < max(maxChildren, maxChildren*(used+1)/2)
}
