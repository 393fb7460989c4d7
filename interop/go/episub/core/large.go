package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/episub/pieces"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

// Large messages: in pieces to the neighbours that take them, whole to the others.

// TakePieces has the topic take large messages in pieces, and give them so; before anything else is done
// with it. Without signatures on messages nobody could check a preamble.
func (t *Topic) TakePieces() {
	if t.policy == payload.StrictSign {
		t.pieces = pieces.New(piecesPort{t}, t.name, t.policy)
	}
}

// PublishCut sends a message of our own that was cut into pieces.
func (t *Topic) PublishCut(payload *pb.Message, cut *pieces.Cut) {
	if t.pieces == nil {
		t.Publish(payload)
		return
	}
	t.acceptLarge(&message{id: t.policy.ID(payload), payload: payload, source: t.trees.source})
	t.pieces.Publish(cut)
}

// acceptLarge delivers a message that goes in pieces, pushes it along the shared tree to neighbours
// that take none, and queues its id for the others of those.
func (t *Topic) acceptLarge(m *message) {
	t.noteFound(m)
	t.cache.store(m, t.port.Now())
	if m.sender != "" {
		t.port.Deliver(m.payload)
	}
	m.holders = []peer.ID{m.sender}
	for _, l := range t.links {
		if t.pieces.Takes(l.id) {
			m.noteHolder(l.id)
		}
	}
	for _, id := range t.eager() {
		t.push(id, m)
	}
	t.lazy.add(t, m)
}

// onPieces: what a neighbour announces comes in pieces, and isn't asked for whole any more.
func (t *Topic) onPieces(l *link, control *pb.Control) {
	t.pieces.Receive(l.id, control)
	if announce := control.GetPieceAnnounce(); announce != nil {
		id := string(announce.GetPreamble().GetId())
		l.keep(id, t.port.Now())
		if m := t.cache.open[id]; m != nil && t.pieces.Has(id) {
			t.giveUp(m)
		}
	}
}

// onWhole: all pieces of a message are here.
func (t *Topic) onWhole(from peer.ID, payload *pb.Message, hops uint32) {
	id := t.policy.ID(payload)
	if t.cache.known[id] != nil {
		return // it came whole meanwhile
	}
	if t.policy.Check(payload) != nil {
		t.port.Refused("", "message-forged") // by its author, not by those that passed it on
		return
	}
	m := t.cache.take(id)
	m.payload, m.source, m.sender, m.hops = payload, sourceOf(payload.From), from, hops
	t.acceptLarge(m)
}

// piecesPort is what the machine of pieces sees of its topic.
type piecesPort struct{ *Topic }

func (p piecesPort) Now() time.Time                         { return p.port.Now() }
func (p piecesPort) After(d time.Duration, f func()) func() { return p.after(d, f) }
func (p piecesPort) Send(id peer.ID, control *pb.Control)   { p.port.Send(id, control) }
func (p piecesPort) Push(id peer.ID, piece *pb.Piece)       { p.port.PushPiece(id, piece) }
func (p piecesPort) Forget(id peer.ID, message string)      { p.port.ForgetPieces(id, message) }
func (p piecesPort) ForgetAll(id peer.ID)                   { p.port.ForgetAllPieces(id) }
func (p piecesPort) Refused(from peer.ID, reason string)    { p.port.Refused(from, reason) }

func (p piecesPort) RTT(id peer.ID) time.Duration { return p.rtt(id) }

func (p piecesPort) Whole(from peer.ID, message *pb.Message, hops uint32) {
	p.onWhole(from, message, hops)
}
