package pieces

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Missing pieces: asked of the parent first, then of all neighbours that may have them.

const (
	giveUpAfter  = 20 * time.Second      // without a new piece
	emptyAfter   = 10 * time.Second      // likewise, where not one has come
	slowest      = 16 << 10              // bytes a second that a message comes at, or it is given up
	atOnce       = 3                     // neighbours asked beside each other
	piecesAtOnce = 16                    // asked of one
	againAfter   = 50 * time.Millisecond // others are asked, where all that were say that they wait
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
	strike := t.strikes
	t.strikes++
	unanswered := peers{}
	for id, pulled := range t.pulled {
		if !pulled.empty() {
			unanswered.add(id)
			t.vain[id] = true
		}
		t.pulled[id] = Mask{}
	}
	t.pulledAt, t.due = now, now.Add(t.patience())
	if found.parent != "" && strike == 0 {
		// What was lost on the way; or it says what it has, if it is waiting itself.
		m.ask(t, found.parent, t.missing())
		t.due = later(t.due, now.Add(2*m.port.RTT(found.parent)))
		return
	}
	switch {
	case found.parent == "":
	case unanswered.has(found.parent) && m.isSilent(found.parent, t.source):
		m.leaveFailedParent(found)
	case strike == 2:
		m.leaveParent(found)
	}
	m.seek(found)
	m.askSeveral(t, strike)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// isSilent tells whether a neighbour has neither announced nor brought anything of what is under way.
func (m *Machine) isSilent(id peer.ID, source string) bool {
	return !slices.ContainsFunc(m.transfers.unfinished, func(t *transfer) bool {
		_, announced := t.announced[id]
		return t.source == source && (announced || !t.taken[id].empty())
	})
}

// askSeveral asks some neighbours for different pieces each, others at each turn: those first that said
// to have what is missing, then others that announced it, and last those that were asked in vain. Those that
// announced nothing know of it from us, and say nothing when they get it elsewhere, or never answer.
func (m *Machine) askSeveral(t *transfer, turn int) {
	missing := t.missing()
	known := m.givers()
	if len(known) > 0 {
		shift := turn % len(known)
		known = slices.Concat(known[shift:], known[:shift])
	}
	order := func(id peer.ID) int {
		place := 0
		if t.vain[id] {
			place += 3
		}
		if has, announced := t.announced[id]; !announced {
			place += 2
		} else if has.and(missing).empty() {
			place++
		}
		return place
	}
	slices.SortStableFunc(known, func(a, b peer.ID) int { return order(a) - order(b) })
	for _, id := range known[:min(atOnce, len(known))] {
		asked := t.announced[id].and(missing)
		if asked.empty() {
			asked = missing
		}
		if asked = asked.lowest(piecesAtOnce); !asked.empty() {
			m.ask(t, id, asked)
			missing = missing.without(asked)
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
		// Asked for again, so it was lost.
		wanted = wanted.without(t.crossing(from, m.port.Now()))
		t.taken[from] = t.taken[from].without(wanted)
		m.push(t, from, wanted)
	}
}

// onProgress: a neighbour that was asked has said what it has. If that is nothing for us it waits
// itself.
func (m *Machine) onProgress(from peer.ID, t *transfer) {
	pulled := t.pulled[from]
	if pulled.empty() || t.isWhole() {
		return
	}
	has := pulled.and(t.announced[from])
	t.pulled[from] = has // those are on their way
	if !has.empty() {
		return
	}
	now, found := m.port.Now(), m.trees.get(t.source)
	switch {
	case found != nil && found.parent == from && t.strikes <= 1:
		// The gap is further up, and those next to it fill it.
		if t.strikes == 1 {
			t.due = now.Add(t.patience())
		}
	case !t.isAsked():
		if again := later(now, t.pulledAt.Add(againAfter)); again.Before(t.due) {
			t.due = again
		}
	}
}
