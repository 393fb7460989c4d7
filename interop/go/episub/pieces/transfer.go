package pieces

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

const (
	gapGain   = 8 // one part in so many; as for round-trip times
	reordered = 1 // pieces by which one may come out of turn before it counts as lost
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
	announcedAt time.Time
	pieces      []*pb.Piece
	have        Mask
	has         map[peer.ID]Mask // what neighbours said to have, or will have: sent by us, or to us
	pulled      map[peer.ID]Mask // what was asked of whom; empty once it came, or others were asked
	vain        map[peer.ID]bool // asked, and sent nothing since
	late        map[int]time.Time
	movedAt     time.Time     // when the last new piece came
	gap         time.Duration // the usual one between two pieces
	gapsAskedAt time.Time     // when the parent was last asked for what others had overtaken
	strikes     int           // how often patience ran out since the last new piece
	due         time.Time
	wholeAt     time.Time
}

func newTransfer(p *preamble, bringer peer.ID, hops uint32, now time.Time) *transfer {
	return &transfer{
		preamble: p, bringer: bringer, hops: hops, announcedAt: now, movedAt: now, due: now,
		pieces: make([]*pb.Piece, p.count()), has: map[peer.ID]Mask{},
		pulled: map[peer.ID]Mask{}, vain: map[peer.ID]bool{}, late: map[int]time.Time{}, gapsAskedAt: now,
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
	for id, pulled := range t.pulled {
		t.pulled[id] = pulled.without(one(index))
	}
}

// patience is how long the next piece may take: twice as long after each time that none came.
func (t *transfer) patience() time.Duration {
	usual := max(usualGaps*t.gap, leastPatience)
	if t.gap == 0 && t.strikes == 0 {
		usual = firstPatience
	}
	return min(usual<<min(max(0, t.strikes-1), 5), mostPatience)
}

// skipped are the pieces that should have come before this one, and that nobody was asked for.
func (t *transfer) skipped(index int) Mask {
	mask := t.missing().and(first(max(0, index-reordered)))
	for _, pulled := range t.pulled {
		mask = mask.without(pulled)
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
	return mask.and(t.has[id])
}

func (t *transfer) noteHas(id peer.ID, mask Mask) { t.has[id] = t.has[id].or(mask) }

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
	delete(t.has, id)
	delete(t.pulled, id)
	delete(t.vain, id)
}
