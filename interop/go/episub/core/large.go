package core

import (
	"slices"
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
func (t *Topic) PublishCut(message *pb.Message, cut *pieces.Cut) {
	if t.pieces == nil {
		t.Publish(message)
		return
	}
	t.acceptLarge(&stored{id: t.policy.ID(message), message: message, source: t.trees.source})
	t.pieces.Publish(cut)
}

// acceptLarge delivers a message that goes in pieces, pushes it along the default tree to neighbours
// that take none, and queues its id for the others of those.
func (t *Topic) acceptLarge(s *stored) {
	now := t.port.Now()
	t.missing.remove(s.id)
	s.at, s.served = now, map[peer.ID]int{}
	t.cache.add(s, now)
	if s.from != "" {
		t.port.Deliver(s.message)
	}
	t.leading.note(s.source)
	holders := []peer.ID{s.from}
	for _, l := range t.links {
		takes := t.pieces.Takes(l.id)
		if takes || (l.eager && l.id != s.from && t.push(l.id, s)) {
			holders = append(holders, l.id)
		}
	}
	if slices.ContainsFunc(t.links, func(l *link) bool { return !slices.Contains(holders, l.id) }) {
		t.lazy.add(t, s.id, holders)
	}
}

// onWhole: all pieces of a message are here.
func (t *Topic) onWhole(from peer.ID, message *pb.Message, hops uint32) {
	id := t.policy.ID(message)
	if t.cache.known[id] != nil {
		return // it came whole meanwhile
	}
	if t.policy.Check(message) != nil {
		t.port.Refused("", "message-forged") // by its author, not by those that passed it on
		return
	}
	t.acceptLarge(&stored{
		id: id, message: message, source: sourceOf(message.From), from: from, hops: hops,
	})
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

func (p piecesPort) RTT(id peer.ID) time.Duration {
	if l := p.link(id); l != nil {
		return l.rtt
	}
	return 0
}

func (p piecesPort) Whole(from peer.ID, message *pb.Message, hops uint32) {
	p.onWhole(from, message, hops)
}
