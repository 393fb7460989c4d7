package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// Payloads: delivered once, pushed on, announced to the others.

// Publish sends a message of our own.
func (t *Topic) Publish(message *pb.Message) {
	source, along := "", ""
	if len(message.From) > 0 {
		source = t.trees.source
		if along = t.chooseTree(source); along == "" {
			along = t.nearestTree()
		}
	} else {
		along = t.chooseTree(t.trees.hidden)
	}
	t.accept(&stored{id: t.policy.ID(message), message: message, source: source, along: along}, nil, nil)
}

// Gossip handles a message that came from a peer; header is nil if it came without.
func (t *Topic) Gossip(from peer.ID, message *pb.Message, header *pb.Gossip) error {
	if t.left {
		return nil
	}
	l := t.link(from)
	if l != nil {
		l.heardAt = t.port.Now()
	}
	id := t.policy.ID(message)
	if known := t.cache.known[id]; known != nil {
		if l != nil {
			t.onDuplicate(l, known, min(max(header.GetHops(), 1), maxHops))
		} else {
			t.tellNoNeighbor(from)
		}
		return nil
	}
	if err := t.policy.Check(message); err != nil {
		return err
	}
	source := ""
	if len(message.From) > 0 {
		source = sourceOf(message.From)
	}
	if t.pieces.Has(id) {
		// Whole, from a neighbour that takes no pieces: the others get it in pieces.
		t.acceptLarge(&stored{
			id: id, message: message, source: source, from: from,
			hops: min(max(header.GetHops(), 1), maxHops),
		})
		if l == nil {
			t.tellNoNeighbor(from)
		}
		return nil
	}
	missing := t.missing.remove(id)
	s := &stored{
		id: id, message: message, source: source, from: from,
		hops: min(max(header.GetHops(), 1), maxHops), along: t.treeOfGossip(header, source),
	}
	if l == nil {
		t.tellNoNeighbor(from)
	}
	t.waits.firstCopy(from, missing, t.port.Now())
	if missing != nil {
		s.asked = missing.asked
	}
	t.accept(s, l, missing)
	return nil
}

// accept delivers a new message, pushes it on, and queues its id for the others.
func (t *Topic) accept(s *stored, from *link, missing *announced) {
	now := t.port.Now()
	s.at, s.served = now, map[peer.ID]int{}
	t.cache.add(s, now)
	if s.from != "" {
		t.port.Deliver(s.message)
	}
	targets := []peer.ID{}
	if s.along == "" {
		t.leading.note(s.source)
		t.onFirstCopy(from, s)
		for _, l := range t.links {
			if l.eager {
				targets = append(targets, l.id)
			}
		}
	} else {
		targets = t.onTreeCopy(s, from)
	}
	holders := []peer.ID{s.from}
	if missing != nil {
		for _, by := range missing.by {
			holders = append(holders, by.id)
		}
	}
	for _, id := range targets {
		if !slices.Contains(holders, id) && t.push(id, s) {
			holders = append(holders, id)
		}
	}
	if from != nil && missing != nil && s.along == "" {
		t.optimizeTree(from, s, missing)
	}
	if s.along != "" {
		holders = append(holders, t.announceAtOnce(s, holders)...)
	}
	t.lazy.add(t, s.id, holders)
}

// push sends a payload to a peer, false if there is no room for it.
func (t *Topic) push(id peer.ID, s *stored) bool {
	header := &pb.Gossip{Hops: proto.Uint32(min(s.hops+1, maxHops))}
	if s.along != "" && s.along == s.source {
		header.OwnTree = proto.Bool(true)
	} else if s.along != "" {
		header.Along = []byte(s.along)
	}
	return t.port.Push(id, s.message, header)
}

// onFirstCopy: the link of a first copy belongs to the default tree.
func (t *Topic) onFirstCopy(l *link, s *stored) {
	if l == nil {
		return
	}
	if !l.eager && !slices.Contains(s.asked, l.id) {
		t.port.Send(l.id, controlGraft(&pb.Graft{})) // our PRUNE is still under way
	}
	l.eager, l.parent = true, true
	l.lateSince = t.port.Now()
}

// onDuplicate: a second copy. Along the default tree it is answered with PRUNE, but for the cases
// that docs/wire.md names.
func (t *Topic) onDuplicate(l *link, s *stored, hops uint32) {
	now := t.port.Now()
	t.lazy.hold(s.id, l.id)
	t.missing.remove(s.id)
	if s.along != "" {
		t.onTreeDuplicate(l, s)
		return
	}
	if s.along == "" && l.eager {
		late := now.Sub(s.at) >= lateCopy
		switch {
		case l.id == s.from || !t.leading.prunes(s.source):
			return
		case late && now.Sub(l.lateSince) <= lostAfter:
			return
		case !late:
			l.lateSince = now
		}
		if parent := t.link(s.from); s.from != "" && (parent == nil || !parent.eager) {
			l.parent, s.from = true, l.id // the other one has pruned us, or is gone
			return
		}
	}
	l.eager = false
	t.port.Send(l.id, controlPrune(&pb.Prune{}))
}

// optimizeTree swaps the link that pushed for one of an announcer that is nearer to the source.
func (t *Topic) optimizeTree(from *link, s *stored, missing *announced) {
	best, fewest := (*link)(nil), s.hops
	for _, by := range missing.by {
		if l := t.link(by.id); l != nil && !l.eager && by.hops < fewest {
			best, fewest = l, by.hops
		}
	}
	if best == nil || !from.eager || s.hops-fewest <= 1 {
		return
	}
	best.eager, from.eager = true, false
	s.from = best.id
	t.port.Send(best.id, controlGraft(&pb.Graft{}))
	t.port.Send(from.id, controlPrune(&pb.Prune{}))
}

func (t *Topic) onPrune(l *link, message *pb.Prune) {
	if len(message.Sources)+len(message.Standby) == 0 {
		l.eager = false
		return
	}
	t.pruneTrees(l.id, message)
}

// unlinkBroadcast repairs the trees that a neighbour had a part in.
func (t *Topic) unlinkBroadcast(l *link) {
	delete(t.lazy.only, l.id)
	delete(t.waits.lags, l.id)
	t.missing.gone(t, l.id)
	t.unlinkTrees(l.id)
	t.pieces.Down(l.id)
	parents := slices.ContainsFunc(t.links, func(other *link) bool { return other.parent })
	if !l.eager || (!l.parent && parents) {
		return
	}
	for _, other := range t.links {
		if !other.eager {
			other.eager = true
			t.port.Send(other.id, controlGraft(&pb.Graft{}))
			return
		}
	}
}

// leadingSource: of several sources that publish at a time, only the duplicates of one may prune.
type leadingSource struct {
	recent  []string
	without int // messages since the last one of the leader
}

func (l *leadingSource) note(source string) {
	if source == "" {
		return
	}
	if l.without >= leadingWindow {
		l.recent = nil
	}
	l.without++
	if l.prunes(source) {
		l.without = 0
	}
	l.recent = append(l.recent, source)
	l.recent = l.recent[max(0, len(l.recent)-leadingWindow):]
}

func (l *leadingSource) prunes(source string) bool {
	return source == "" || !slices.ContainsFunc(l.recent, func(other string) bool { return other < source })
}
