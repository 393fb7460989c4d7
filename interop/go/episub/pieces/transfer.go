package pieces

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

const (
	gapGain   = 8 // one part in so many; as for round-trip times
	reordered = 2 // pieces by which one may come out of turn before it counts as lost
	onItsWay  = 300 * time.Millisecond

	firstPatience = time.Second
	leastPatience = 300 * time.Millisecond
	mostPatience  = 3 * time.Second
	usualGaps     = 10
)

// transfer is one message, under way or whole.
type transfer struct {
	*preamble
	hops        uint32  // links that the preamble took to us; 0 if it is our own
	bringer     peer.ID // that announced it first
	announced   map[peer.ID]Mask
	announcedAt time.Time
	pieces      []*pb.Piece
	have        Mask
	taken       map[peer.ID]Mask // what neighbours have, as far as we know
	pulled      map[peer.ID]Mask // what was asked of whom; empty once it came, or others were asked
	pulledAt    time.Time        // when something was last asked for because none came
	vain        map[peer.ID]bool // asked, and sent nothing since
	late        map[int]time.Time
	movedAt     time.Time     // when the last new piece came
	gap         time.Duration // the usual one between two pieces
	gapsAsked   map[int]time.Time
	strikes     int // how often patience ran out since the last new piece
	due         time.Time
	wholeAt     time.Time
}

func newTransfer(p *preamble, bringer peer.ID, hops uint32, now time.Time) *transfer {
	return &transfer{
		preamble: p, bringer: bringer, hops: hops, announcedAt: now, movedAt: now, due: now,
		pieces: make([]*pb.Piece, p.count()), announced: map[peer.ID]Mask{}, taken: map[peer.ID]Mask{},
		pulled: map[peer.ID]Mask{}, vain: map[peer.ID]bool{}, late: map[int]time.Time{},
		gapsAsked: map[int]time.Time{},
	}
}

func (t *transfer) missing() Mask { return t.everything().without(t.have) }
func (t *transfer) isWhole() bool { return !t.wholeAt.IsZero() }

// add keeps a piece that is new and belongs here.
func (t *transfer) add(piece *pb.Piece, now time.Time) {
	index := int(piece.GetIndex())
	t.pieces[index] = piece
	switch waited := now.Sub(t.movedAt); {
	case t.have.beyond(index):
		t.late[index] = now
	case t.have.empty():
	case t.gap == 0:
		t.gap = waited
	default:
		t.gap += (waited - t.gap) / gapGain
	}
	t.have = t.have.or(one(index))
	t.movedAt = now
	t.strikes = 0
}

// patience is how long the next piece may take: twice as long after each time that none came.
func (t *transfer) patience() time.Duration {
	usual := max(usualGaps*t.gap, leastPatience)
	if t.gap == 0 && t.strikes == 0 {
		usual = firstPatience
	}
	for range t.strikes - 1 {
		if usual = min(2*usual, mostPatience); usual == mostPatience {
			break
		}
	}
	return min(usual, mostPatience)
}

// skipped are the pieces that should have come from the parent before this one, and of which nobody
// was asked, nor the parent since then.
func (t *transfer) skipped(parent peer.ID, index int, since time.Time) Mask {
	mask := t.missing().and(first(max(0, index-reordered)))
	for id, pulled := range t.pulled {
		if id != parent {
			mask = mask.without(pulled)
		}
	}
	for other, at := range t.gapsAsked {
		if at.After(since) {
			mask = mask.without(one(other))
		}
	}
	return mask
}

// crossing are the pieces that a peer missed as we did, and that went there before it could ask.
func (t *transfer) crossing(id peer.ID, now time.Time) Mask {
	var mask Mask
	for index, at := range t.late {
		if now.Sub(at) < onItsWay {
			mask = mask.or(one(index))
		}
	}
	return mask.and(t.taken[id])
}

func (t *transfer) noteTaken(id peer.ID, mask Mask) { t.taken[id] = t.taken[id].or(mask) }

// came notes that a piece isn't waited for any more.
func (t *transfer) came(index int) {
	for id, pulled := range t.pulled {
		t.pulled[id] = pulled.without(one(index))
	}
}

// isAsked tells whether anything that was asked for is still to come.
func (t *transfer) isAsked() bool {
	for _, pulled := range t.pulled {
		if !pulled.empty() {
			return true
		}
	}
	return false
}

func (t *transfer) forget(id peer.ID) {
	delete(t.announced, id)
	delete(t.taken, id)
	delete(t.pulled, id)
	delete(t.vain, id)
}
