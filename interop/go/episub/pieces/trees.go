package pieces

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	maxTrees    = 64
	maxChildren = 2         // in one tree
	short       = 256 << 10 // bytes up to which messages leave room for a third child
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
	at   time.Time
}

// waiter asked for a place before we had one.
type waiter struct {
	id    peer.ID
	wants []want
}

// tree is this node's part in the narrow tree of one source. Ranks keep it free of circles: a child's is
// larger than its parent's, and a node takes a larger one than it has only while it has no children.
type tree struct {
	source     string
	own        bool
	rank       int     // milliseconds from the source, roughly; kept while there is no parent
	parent     peer.ID // "" if there is none
	pushedAt   time.Time
	children   peers
	waiting    []waiter
	offers     []offer               // in the order in which they came
	barred     map[peer.ID]time.Time // those that refused or failed, and until when they aren't asked
	announcers peers                 // of the newest message: those are known to pass on
	asking     peer.ID               // was asked for a place, and hasn't answered
	askAt      time.Time             // when its answer is overdue, or others are asked again; zero if neither
	longest    int                   // bytes of a message
	carried    bool                  // a piece has come along it
}

func newTree(source string, own bool, now time.Time) *tree {
	return &tree{source: source, own: own, pushedAt: now, barred: map[peer.ID]time.Time{}}
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
func (t *tree) setOffer(id peer.ID, rank int, now time.Time, ifNew bool) {
	for i := range t.offers {
		if t.offers[i].from == id {
			if !ifNew {
				t.offers[i].rank, t.offers[i].at = rank, now
			}
			return
		}
	}
	t.offers = append(t.offers, offer{id, rank, now})
}

func (t *tree) forgetOffer(id peer.ID) {
	t.offers = slices.DeleteFunc(t.offers, func(o offer) bool { return o.from == id })
}

// bar: a neighbour is asked for no place before that time.
func (t *tree) bar(id peer.ID, until time.Time) {
	if until.After(t.barred[id]) {
		t.barred[id] = until
	}
}

// candidates are those of the neighbours that may have a place for us: while we have children, only
// nearer ones. Those that announced the last message come first, then those that offered one; where
// places were offered last, by near neighbours, they are free.
func (t *tree) candidates(neighbors []peer.ID, now time.Time, rtt func(peer.ID) time.Duration) []offer {
	found := slices.DeleteFunc(slices.Clone(t.offers), func(o offer) bool {
		return (len(t.children) > 0 && o.rank >= t.rank) || !slices.Contains(neighbors, o.from) ||
			t.barred[o.from].After(now) || t.children.has(o.from) || o.from == t.parent
	})
	place := func(o offer) int {
		place := 0
		if !t.announcers.has(o.from) {
			place += 2
		}
		if o.rank >= maxRank {
			place++
		}
		return place
	}
	wait := func(o offer) time.Duration {
		if o.rank >= maxRank {
			return rtt(o.from)
		}
		return now.Sub(o.at) + rtt(o.from)
	}
	slices.SortStableFunc(found, func(a, b offer) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(wait(a), wait(b)))
	})
	return found
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
	t.forgetOffer(id)
	t.announcers.remove(id)
	delete(t.barred, id)
	if t.parent == id {
		t.parent = ""
	}
	if t.asking == id {
		t.asking, t.askAt = "", time.Time{}
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

// use is the tree of a source, made if there is none.
func (ts *trees) use(source string, now time.Time) *tree {
	t := ts.get(source)
	if t == nil {
		t = newTree(source, false, now)
	}
	ts.drop(t)
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

// mostChildren is how many a node may have in it.
func (t *tree) mostChildren() int {
	if t.longest > 0 && t.longest <= short {
		return maxChildren + 1
	}
	return maxChildren
}

// hasRoom tells whether a tree has a place. In all trees together a node has half the children that it
// may have in each, and as many more as one tree has: nobody is inside of all.
func (ts trees) hasRoom(t *tree) bool {
	most := t.mostChildren()
	if t.own || t.taken() >= most {
		return t.taken() < most
	}
	used, taken := 0, 0
	for _, other := range ts {
		if other.stands() || other.asking != "" {
			used++
			taken += other.taken()
		}
	}
	return taken < max(most, maxChildren*(used+1)/2)
}
