package pieces

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	maxUnfinished      = maxWants
	maxUnfinishedBytes = 4 * MaxSize // announced, of all unfinished messages
	maxOfOne           = maxUnfinished / 4
	maxBytesOfOne      = maxUnfinishedBytes / 2 // of one source, and of one neighbour that brought them
	maxKept            = 1024                   // whole messages
	maxKeptBytes       = 2 * MaxSize
	keptFor            = 45 * time.Second
	maxForgotten       = 4096
	idleAfter          = time.Second // messages without a piece give way to others
)

// transfers are the messages in pieces that this node knows of.
type transfers struct {
	known      map[string]*transfer
	unfinished []*transfer
	whole      []*transfer // in the order in which they became whole
	keptBytes  int
	over       map[string]bool // ids of those that aren't kept any more, or were given up
	overOrder  []string
}

func newTransfers() transfers {
	return transfers{known: map[string]*transfer{}, over: map[string]bool{}}
}

// all are those under way and those kept; the list may be changed while it is gone through.
func (ts *transfers) all() []*transfer { return slices.Concat(ts.whole, ts.unfinished) }

func (ts *transfers) ofSource(source string) []*transfer {
	return slices.DeleteFunc(ts.all(), func(t *transfer) bool { return t.source != source })
}

// isUnderWay tells whether a message of the source isn't whole yet.
func (ts *transfers) isUnderWay(source string) bool {
	return slices.ContainsFunc(ts.unfinished, func(t *transfer) bool { return t.source == source })
}

// makeRoom is whether one more message may be under way. No author and no neighbour has more than its
// share; older ones without a piece give way, as a preamble costs its author nothing.
func (ts *transfers) makeRoom(p *preamble, bringer peer.ID, now time.Time) bool {
	for {
		rivals := ts.rivals(p, bringer)
		if rivals == nil {
			return true
		}
		idle := slices.IndexFunc(rivals, func(t *transfer) bool {
			return t.have.empty() && now.Sub(t.announcedAt) >= idleAfter
		})
		if idle < 0 {
			return false
		}
		ts.takeOut(rivals[idle])
		delete(ts.known, rivals[idle].id)
	}
}

// rivals are the messages that leave no room for one, the oldest first; nil if there is room.
func (ts *transfers) rivals(p *preamble, bringer peer.ID) []*transfer {
	for _, share := range []struct {
		is              func(*transfer) bool
		most, mostBytes int
	}{
		{func(t *transfer) bool { return t.source == p.source }, maxOfOne, maxBytesOfOne},
		{func(t *transfer) bool { return t.bringer == bringer }, maxOfOne, maxBytesOfOne},
		{func(*transfer) bool { return true }, maxUnfinished, maxUnfinishedBytes},
	} {
		found, bytes := []*transfer{}, p.size()
		for _, t := range ts.unfinished {
			if share.is(t) {
				found = append(found, t)
				bytes += t.size()
			}
		}
		if len(found) >= share.most || bytes > share.mostBytes {
			return found
		}
	}
	return nil
}

func (ts *transfers) add(t *transfer) {
	ts.known[t.id] = t
	ts.unfinished = append(ts.unfinished, t)
}

// finish keeps a message that is whole for others, in place of older ones if need be.
func (ts *transfers) finish(t *transfer, now time.Time) {
	ts.takeOut(t)
	t.wholeAt = now
	ts.known[t.id] = t
	ts.whole = append(ts.whole, t)
	ts.keptBytes += t.size()
	for len(ts.whole) > 1 && (ts.keptBytes > maxKeptBytes || len(ts.whole) > maxKept) {
		ts.forgetOldest()
	}
}

func (ts *transfers) giveUp(t *transfer) {
	ts.takeOut(t)
	ts.remember(t.id)
}

func (ts *transfers) expire(now time.Time) {
	for len(ts.whole) > 0 && now.Sub(ts.whole[0].wholeAt) >= keptFor {
		ts.forgetOldest()
	}
}

// clear forgets everything.
func (ts *transfers) clear() { *ts = newTransfers() }

func (ts *transfers) forgetOldest() {
	oldest := ts.whole[0]
	ts.whole = slices.Delete(ts.whole, 0, 1)
	ts.keptBytes -= oldest.size()
	ts.remember(oldest.id)
}

func (ts *transfers) remember(id string) {
	delete(ts.known, id)
	ts.over[id] = true
	ts.overOrder = append(ts.overOrder, id)
	if len(ts.overOrder) > maxForgotten {
		delete(ts.over, ts.overOrder[0])
		ts.overOrder = slices.Delete(ts.overOrder, 0, 1)
	}
}

func (ts *transfers) takeOut(t *transfer) {
	ts.unfinished = slices.DeleteFunc(ts.unfinished, func(other *transfer) bool { return other == t })
}
