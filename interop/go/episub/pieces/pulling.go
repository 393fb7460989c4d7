package pieces

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Missing pieces: asked of the parent first, then of all neighbours that may have them.

const (
	giveUpAfter  = 20 * time.Second // without a new piece
	emptyAfter   = 10 * time.Second // likewise, where not one has come
	slowest      = 16 << 10         // bytes a second that a message comes at, or it is given up
	atOnce       = 3                // neighbours asked beside each other
	piecesAtOnce = 16               // asked of one
)

func (m *Machine) ask(t *transfer, of peer.ID, mask Mask) {
	t.pulled[of] = t.pulled[of].or(mask)
	m.port.Send(of, &pb.Control{Message: &pb.Control_PieceGraft{PieceGraft: &pb.PieceGraft{
		Wants: []*pb.PieceWant{{Id: t.wire.Id, Missing: mask.bytes()}},
	}}})
}

// fireTransfers looks after the messages that are due.
func (m *Machine) fireTransfers(now time.Time) {
	m.transfers.expire(now)
	for _, t := range slices.Clone(m.transfers.unfinished) {
		switch {
		case t.due.After(now):
		case t.isHopeless(now):
			m.transfers.giveUp(t)
			m.port.Refused(t.bringer, messageLost)
		default:
			m.pull(t, now)
		}
	}
}

func (t *transfer) isHopeless(now time.Time) bool {
	waited := giveUpAfter
	if t.have.empty() {
		waited = emptyAfter
	}
	longest := giveUpAfter + time.Duration(t.size())*time.Second/slowest
	return now.Sub(t.movedAt) >= waited || now.Sub(t.announcedAt) >= longest
}

func (m *Machine) pull(t *transfer, now time.Time) {
	found := m.trees.use(t.source, now)
	parent, strike := found.parent, t.strikes
	t.strikes++
	unanswered := peers{}
	for id, pulled := range t.pulled {
		if !pulled.empty() {
			unanswered.add(id)
			t.vain[id] = true
		}
		t.pulled[id] = Mask{}
	}
	wait := t.patience()
	if parent != "" && strike == 0 {
		// What was lost on the way; or it says what it has, if it is waiting itself.
		m.ask(t, parent, t.missing())
		wait = max(wait, 2*m.port.RTT(parent))
	} else {
		failed := unanswered.has(parent) && found.pushedAt.Before(t.announcedAt)
		if parent != "" && (failed || strike == 2) {
			m.leaveParent(found, failed)
		}
		m.seek(found)
		m.askSeveral(t)
	}
	t.due = now.Add(wait)
}

// askSeveral asks some neighbours for different pieces each: those first that said to have what is
// missing, then others that said something, and last those that were asked in vain.
func (m *Machine) askSeveral(t *transfer) {
	missing := t.missing()
	despair := func(id peer.ID) int {
		has, known := t.has[id]
		place := 0
		if t.vain[id] {
			place += 4
		}
		if !known {
			place += 2
		}
		if has.and(missing).empty() {
			place++
		}
		return place
	}
	known := m.givers()
	slices.SortStableFunc(known, func(a, b peer.ID) int { return despair(a) - despair(b) })
	left := missing
	for _, id := range known[:min(atOnce, len(known))] {
		asked := t.has[id].and(left)
		if asked.empty() {
			asked = left
		}
		if asked = asked.lowest(piecesAtOnce); !asked.empty() {
			m.ask(t, id, asked)
			left = left.without(asked)
		}
	}
}

// onWants sends a neighbour the pieces that it asks for and that are here, and says what is here if some
// aren't.
func (m *Machine) onWants(from peer.ID, wants []want) {
	for _, w := range wants {
		t := m.transfers.known[w.id]
		if t == nil {
			continue
		}
		wanted := w.missing.and(t.everything())
		if wanted.empty() || !wanted.without(t.have).empty() {
			m.announce(t, from)
		}
		wanted = wanted.without(t.crossing(from, m.port.Now()))
		t.has[from] = t.has[from].without(wanted) // it was lost
		m.push(t, from, wanted)
	}
}
