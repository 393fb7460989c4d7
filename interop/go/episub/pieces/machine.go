// Package pieces is one node's part in the large messages of one topic of /episub/1.0.0, made from
// docs/wire.md: cut into pieces that are checked and passed on one by one, along a narrow tree for each
// source, and asked for where one is missing. It does no input or output and reads no clock.
package pieces

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// Port is what a machine needs of its topic. Callbacks come one at a time, never from inside a call.
type Port interface {
	Now() time.Time
	// After calls f after a while, unless it is stopped before.
	After(d time.Duration, f func()) (stop func())
	// RTT is the round trip to a neighbour; 0 while it isn't known.
	RTT(id peer.ID) time.Duration
	// Send queues a control message to a neighbour.
	Send(id peer.ID, control *pb.Control)
	// Push has a piece sent once nothing else waits for the neighbour.
	Push(id peer.ID, piece *pb.Piece)
	// Forget: the pieces of a message that wait for a neighbour are wanted no more.
	Forget(id peer.ID, message string)
	// ForgetAll: nor are those of any message.
	ForgetAll(id peer.ID)
	// Whole hands over a message that its preamble's author, seqno and topic are those of; nothing else
	// of it is checked. `from` brought its last piece.
	Whole(from peer.ID, message *pb.Message, hops uint32)
	// Refused counts what isn't acted on; `from` is "" where that is no peer's fault.
	Refused(from peer.ID, reason string)
}

// What is counted, under the names that the Python node has.
const (
	badPiece          = "bad-piece"
	badPreamble       = "bad-preamble"
	preambleRefused   = "preamble-refused"
	preambleForged    = "preamble-forged"
	pieceInvalid      = "piece-invalid"
	pieceLate         = "piece-late"
	unsolicited       = "unsolicited"
	messageLost       = "message-lost"
	messageMismatched = "message-mismatched"
)

const recent = 3 * time.Second // of whole messages, that a new neighbour is announced

// Machine is driven by one goroutine. A nil one is that of a node that takes no pieces.
type Machine struct {
	port      Port
	topic     string
	policy    payload.Policy
	takers    peers // neighbours that take pieces
	greetings greetings
	liars     map[peer.ID]bool // neighbours that sent a bad piece, or a forged preamble
	wanted    []wanting        // the oldest first
	transfers transfers
	trees     trees
	next      time.Time // when the only timer fires; zero if there is none
	stop      func()
}

// New is the machine of a topic that was just joined.
func New(port Port, topic string, policy payload.Policy) *Machine {
	return &Machine{
		port: port, topic: topic, policy: policy, transfers: newTransfers(),
		greetings: greetings{}, liars: map[peer.ID]bool{},
	}
}

// Is tells whether a control message is about pieces.
func Is(control *pb.Control) bool {
	switch control.Message.(type) {
	case *pb.Control_PieceOffer, *pb.Control_PieceAnnounce, *pb.Control_PieceGraft,
		*pb.Control_PiecePrune, *pb.Control_Piece:
		return true
	}
	return false
}

// Receive handles a control message about pieces from a neighbour.
func (m *Machine) Receive(from peer.ID, control *pb.Control) {
	if m == nil {
		return
	}
	if offer := control.GetPieceOffer(); offer != nil {
		m.answer(from, offer)
	}
	m.takeUp(from)
	switch message := control.Message.(type) {
	case *pb.Control_PieceOffer:
		m.onOffer(from, message.PieceOffer)
	case *pb.Control_PieceAnnounce:
		m.onAnnounce(from, message.PieceAnnounce)
	case *pb.Control_PieceGraft:
		wants, source := readWants(message.PieceGraft), message.PieceGraft.Source
		switch {
		case source == nil:
			m.onWants(from, wants)
		case len(source) == sourceSize:
			m.onGraft(from, string(source), wants)
		}
	case *pb.Control_PiecePrune:
		m.onPrune(from, message.PiecePrune)
	case *pb.Control_Piece:
		m.onPiece(from, message.Piece)
	}
	m.arm()
}

// takeUp: a neighbour takes pieces, and has missed what went out since its link came.
func (m *Machine) takeUp(id peer.ID) {
	since, greeted := m.greetings.answered(id)
	if !greeted || m.takers.has(id) {
		return
	}
	m.takers.add(id)
	for _, t := range m.transfers.all() {
		unheard := t.bringer == "" && len(t.has) == 0
		if !t.isWhole() || !t.wholeAt.Before(since.Add(-recent)) || unheard {
			m.announce(t, id)
		}
	}
}

// Up: a new neighbour may take pieces.
func (m *Machine) Up(id peer.ID) {
	if m == nil {
		return
	}
	m.greetings.greeted(id, m.port.Now(), !m.takers.has(id))
	m.greet(id)
	m.arm()
}

// answer: a neighbour that has greeted us before and does so again has no greeting of ours.
func (m *Machine) answer(id peer.ID, offer *pb.PieceOffer) {
	again := m.takers.has(id) && len(offer.Offers) == 0 && !offer.GetAccepted()
	if again && m.greetings.mayAnswer(id, m.port.Now()) {
		m.greetings.greeted(id, m.port.Now(), false)
		m.greet(id)
	}
}

// Down: a neighbour is gone, and what was asked of it is asked of others at once.
func (m *Machine) Down(id peer.ID) {
	if m == nil {
		return
	}
	delete(m.greetings, id)
	delete(m.liars, id)
	if !m.takers.remove(id) {
		return
	}
	m.port.ForgetAll(id)
	for _, t := range m.transfers.all() {
		if !t.pulled[id].empty() {
			t.due = m.port.Now()
		}
		t.forget(id)
	}
	m.unlinkTrees(id)
	m.arm()
}

// Clear ends the machine of a topic that is left.
func (m *Machine) Clear() {
	if m == nil {
		return
	}
	for _, id := range m.takers {
		m.port.ForgetAll(id)
	}
	m.transfers.clear()
	m.trees, m.takers, m.wanted = nil, nil, nil
	clear(m.greetings)
	m.disarm()
}

// Takes tells whether a neighbour takes pieces.
func (m *Machine) Takes(id peer.ID) bool { return m != nil && m.takers.has(id) }

// Has tells whether a message comes in pieces, or came so and is kept.
func (m *Machine) Has(id string) bool { return m != nil && m.transfers.known[id] != nil }

// Offer announces a message to a neighbour that asked for it whole; false if it can't be had in
// pieces.
func (m *Machine) Offer(message string, to peer.ID) bool {
	if !m.Takes(to) || !m.Has(message) {
		return false
	}
	m.announce(m.transfers.known[message], to)
	return true
}

// givers are the neighbours that can be asked for pieces.
func (m *Machine) givers() []peer.ID {
	return slices.DeleteFunc(slices.Clone(m.takers), func(id peer.ID) bool { return m.liars[id] })
}

// deadline is when something is due next; zero if nothing is.
func (m *Machine) deadline() time.Time {
	at := time.Time{}
	consider := func(other time.Time) {
		if !other.IsZero() && (at.IsZero() || other.Before(at)) {
			at = other
		}
	}
	for _, to := range m.greetings {
		consider(to.again)
	}
	for _, t := range m.trees {
		consider(t.askAt)
	}
	for _, t := range m.transfers.unfinished {
		consider(t.due)
	}
	for _, w := range m.wanted {
		consider(w.at)
	}
	if len(m.transfers.whole) > 0 {
		consider(m.transfers.whole[0].wholeAt.Add(keptFor))
	}
	return at
}

// arm has the timer fire when something is due. One that fires too early is left as it is: most are, as
// each piece puts off what is due.
func (m *Machine) arm() {
	at := m.deadline()
	if at.IsZero() {
		m.disarm()
		return
	}
	if !m.next.IsZero() && !at.Before(m.next) {
		return
	}
	m.disarm()
	m.next = at
	m.stop = m.port.After(at.Sub(m.port.Now()), func() {
		if !m.next.Equal(at) {
			return // it was stopped as it fired
		}
		m.next = time.Time{}
		now := m.port.Now()
		m.fireTrees(now)
		m.fireTransfers(now)
		m.fireWanted(now)
		for _, id := range m.greetings.due(now) {
			m.sendOffer(id, false)
		}
		m.arm()
	})
}

func (m *Machine) disarm() {
	if !m.next.IsZero() {
		m.stop()
		m.next = time.Time{}
	}
}
