package pieces

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// Preambles and pieces, as they come: checked, kept, and passed on at once.

// Publish sends a message of our own.
func (m *Machine) Publish(cut *Cut) {
	now, p := m.port.Now(), cut.preamble
	if m.transfers.known[p.id] != nil || m.transfers.over[p.id] {
		return
	}
	own := newTransfer(p, "", 0, now)
	for _, piece := range cut.pieces {
		own.add(piece, now)
	}
	m.transfers.finish(own, now)
	t := m.trees.use(p.source, now)
	if !t.own {
		m.own(t)
	}
	for _, id := range m.takers {
		m.announce(own, id)
	}
	m.noteSize(t, p.size())
	if len(t.children) == 0 {
		m.offerPlaces(t)
	}
	// One piece to each child, then the next, so that none waits for all of another's.
	for index := range p.count() {
		for _, child := range t.children {
			m.push(own, child, one(index))
		}
	}
	m.arm()
}

// own makes us the root of the tree. It may have had a parent: messages of an earlier run.
func (m *Machine) own(t *tree) {
	for _, id := range []peer.ID{t.parent, t.asking} {
		if id != "" {
			m.sendPrune(id, t.source)
		}
	}
	for _, w := range t.waiting {
		m.refusePlace(w.id, t.source, nil)
	}
	children := t.children
	*t = *newTree(t.source, true, m.port.Now())
	t.children = children
}

func (m *Machine) announce(t *transfer, to peer.ID) {
	m.port.Send(to, &pb.Control{Message: &pb.Control_PieceAnnounce{PieceAnnounce: &pb.PieceAnnounce{
		Preamble: t.wire, Have: t.have.bytes(), Hops: proto.Uint32(min(t.hops+1, maxHops)),
	}}})
}

// push sends a neighbour pieces that are here and that it hasn't got.
func (m *Machine) push(t *transfer, to peer.ID, mask Mask) {
	mask = mask.and(t.have).without(t.has[to])
	t.noteHas(to, mask)
	for _, index := range mask.Indices() {
		m.port.Push(to, t.pieces[index])
	}
}

// onAnnounce: a neighbour has a message, or will have it. That is passed on, and the message asked
// for.
func (m *Machine) onAnnounce(from peer.ID, message *pb.PieceAnnounce) {
	p, sound := readPreamble(message.Preamble)
	have, readable := readMask(message.Have)
	hops := message.GetHops()
	if !sound || !readable || hops < 1 || hops > maxHops {
		m.port.Refused(from, badPreamble)
		return
	}
	t := m.transfers.known[p.id]
	switch {
	case t != nil && !t.isSame(p):
		m.port.Refused(from, preambleRefused)
		return
	case t == nil && m.transfers.over[p.id]:
		return
	case t == nil:
		if t = m.takeOn(from, p, hops); t == nil {
			return
		}
		m.onNew(from, t)
	}
	_, asked := t.pulled[from]
	if found := m.trees.get(p.source); found != nil {
		if !asked { // else it may know of it from us
			found.announcers.add(from)
		}
		if hops <= t.hops && !found.stands() {
			// It had it before us, as all that it may wait for: nobody waits in a circle.
			found.setOffer(from, maxRank, m.port.Now(), true)
		}
	}
	t.noteHas(from, have.and(t.everything()))
	if asked {
		t.pulled[from] = t.pulled[from].and(have) // the rest doesn't come: it waits itself
	}
	if !have.empty() {
		delete(t.vain, from)
	}
}

// takeOn begins a new message, if there is room and its author has signed the preamble; else nil.
func (m *Machine) takeOn(from peer.ID, p *preamble, hops uint32) *transfer {
	if m.liars[from] || !m.transfers.makeRoom(p, from, m.port.Now()) {
		m.port.Refused(from, preambleRefused)
		if !m.liars[from] {
			m.want(from, p.id)
		}
		return nil
	}
	switch err := m.policy.CheckPreamble(m.topic, p.wire); {
	case errors.Is(err, payload.ErrKey):
		m.port.Refused(from, preambleRefused)
		return nil
	case err != nil:
		m.onLie(from, preambleForged)
		return nil
	}
	t := newTransfer(p, from, hops, m.port.Now())
	m.transfers.add(t)
	return t
}

func (m *Machine) onNew(from peer.ID, t *transfer) {
	now := m.port.Now()
	found := m.trees.use(t.source, now)
	found.announcers = nil
	m.noteSize(found, t.size())
	for _, id := range found.children { // they wait for it
		if id != from {
			m.announce(t, id)
		}
	}
	for _, id := range m.takers {
		if id != from && !found.children.has(id) {
			m.announce(t, id)
		}
	}
	if !found.stands() {
		found.setOffer(from, maxRank, now, true)
		m.seek(found)
	}
	t.due = now.Add(firstPatience)
}

// onPiece keeps a piece that is new and belongs to its message, and passes it on.
func (m *Machine) onPiece(from peer.ID, message *pb.Piece) {
	piece, sound := readPiece(message)
	t := m.transfers.known[string(piece.Id)]
	index := int(piece.GetIndex())
	switch {
	case !sound:
		m.port.Refused(from, badPiece)
		return
	case m.liars[from]:
		m.port.Refused(from, pieceInvalid)
		return
	case t == nil:
		m.onUnknown(from, string(piece.Id))
		return
	case !bytes.Equal(piece.Root, t.wire.Root): // the author has signed two preambles
		m.port.Refused(from, preambleRefused)
		return
	case index >= t.count():
		m.port.Refused(from, pieceInvalid)
		return
	}
	now := m.port.Now()
	found := m.trees.get(t.source)
	inTurn := found != nil && found.parent == from && !t.pulled[from].has(index)
	if inTurn {
		found.pushedAt = now
	}
	if t.have.has(index) {
		t.noteHas(from, one(index))
		m.port.Refused(from, pieceLate)
		return
	}
	if !t.belongs(piece) {
		m.onLie(from, pieceInvalid)
		return
	}
	piece.Id = t.wire.Id
	t.add(piece, now)
	t.noteHas(from, one(index))
	delete(t.vain, from)
	if found != nil {
		found.carried = true
		for _, child := range found.children {
			m.push(t, child, one(index))
		}
		if inTurn {
			m.askForGaps(t, from, index)
		}
	}
	switch {
	case t.missing().empty():
		m.finish(from, t)
	case (found == nil || found.parent == "") && !t.isAsked():
		t.due = now // ask for the next ones
	default:
		t.due = now.Add(t.patience())
	}
}

// onUnknown: a piece of a message that isn't under way. Its preamble was lost, or gave way.
func (m *Machine) onUnknown(from peer.ID, id string) {
	if m.transfers.over[id] {
		m.port.Refused(from, pieceLate)
		return
	}
	m.port.Refused(from, unsolicited)
	asked := slices.ContainsFunc(m.wanted, func(w wanting) bool { return w.id == id && w.of == from })
	if !asked {
		m.want(from, id)
		m.askForPreamble(from, id)
	}
}

// wanting is a message whose preamble a neighbour is to be asked for, once others have had their time.
type wanting struct {
	id string
	of peer.ID
	at time.Time
}

func (m *Machine) want(from peer.ID, id string) {
	m.wanted = slices.DeleteFunc(m.wanted, func(w wanting) bool { return w.id == id })
	m.wanted = append(m.wanted, wanting{id, from, m.port.Now().Add(idleAfter)})
	m.wanted = m.wanted[max(0, len(m.wanted)-maxUnfinished):]
}

func (m *Machine) fireWanted(now time.Time) {
	for len(m.wanted) > 0 && !m.wanted[0].at.After(now) {
		w := m.wanted[0]
		m.wanted = m.wanted[1:]
		if m.takers.has(w.of) && !m.Has(w.id) && !m.transfers.over[w.id] {
			m.askForPreamble(w.of, w.id)
		}
	}
}

func (m *Machine) askForPreamble(of peer.ID, id string) {
	m.port.Send(of, &pb.Control{Message: &pb.Control_PieceGraft{PieceGraft: &pb.PieceGraft{
		Wants: []*pb.PieceWant{{Id: []byte(id)}},
	}}})
}

// onLie: no correct peer passes on a piece that doesn't belong to its message, or what its author didn't
// sign. Nothing is asked of the sender any more, nor its signatures checked, and what was asked of it is
// asked of others at once.
func (m *Machine) onLie(from peer.ID, what string) {
	m.port.Refused(from, what)
	m.liars[from] = true
	m.leave(from)
	for _, t := range m.transfers.unfinished {
		if pulled, asked := t.pulled[from]; asked {
			delete(t.pulled, from)
			if !pulled.empty() {
				t.due = m.port.Now()
			}
		}
	}
}

// askForGaps asks the parent for what should have come before this piece, and once more where the
// request or its answer was lost.
func (m *Machine) askForGaps(t *transfer, parent peer.ID, index int) {
	now := m.port.Now()
	if now.Sub(t.gapsAskedAt) > t.patience() {
		t.pulled[parent] = Mask{}
	}
	if mask := t.skipped(index); !mask.empty() {
		t.gapsAskedAt = now
		m.ask(t, parent, mask)
	}
}

// finish hands over a message that is whole, unless its author signed something else: those that passed
// it on couldn't tell.
func (m *Machine) finish(from peer.ID, t *transfer) {
	clear(t.pulled)
	clear(t.vain)
	m.transfers.finish(t, m.port.Now())
	m.judgeParent(t)
	raw := make([]byte, 0, t.size())
	for _, piece := range t.pieces {
		raw = append(raw, piece.Data...)
	}
	message := &pb.Message{}
	if proto.Unmarshal(raw, message) != nil || message.GetTopic() != m.topic ||
		string(message.From) != string(t.wire.Author) || string(message.Seqno) != string(t.wire.Seqno) ||
		m.policy.ID(message) != t.id {
		m.port.Refused("", messageMismatched)
		return
	}
	m.port.Whole(from, message, t.hops)
}
