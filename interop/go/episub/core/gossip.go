package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// Payloads: delivered once, pushed on, announced to the others.

// Publish sends a message of our own.
func (t *Topic) Publish(payload *pb.Message) {
	m := &message{id: t.policy.ID(payload), payload: payload}
	if len(payload.From) > 0 {
		m.source = t.trees.source
		m.along = t.chooseTree(m.source, true)
	} else {
		m.along = t.chooseTree(t.trees.hidden, false)
	}
	t.accept(m, nil)
}

// Gossip handles a message that came from a peer; header is nil if it came without.
func (t *Topic) Gossip(from peer.ID, payload *pb.Message, header *pb.Gossip) error {
	if t.left {
		return nil
	}
	l, id, now := t.link(from), t.policy.ID(payload), t.port.Now()
	if l != nil {
		l.heardAt = now
		l.keep(id, now)
	} else {
		defer t.tellNoNeighbor(from)
	}
	if known := t.cache.known[id]; known != nil {
		if l != nil {
			t.onDuplicate(l, known)
		}
		return nil
	}
	if err := t.policy.Check(payload); err != nil {
		return err
	}
	m := t.cache.take(id)
	m.payload, m.sender, m.hops = payload, from, min(max(header.GetHops(), 1), maxHops)
	if len(payload.From) > 0 {
		m.source = sourceOf(payload.From)
	}
	if t.pieces.Has(id) {
		// Whole, from a neighbour that takes no pieces: the others get it in pieces.
		t.acceptLarge(m)
		return nil
	}
	m.along = treeOfGossip(header, m.source)
	t.noteFirstCopy(m)
	t.accept(m, l)
	return nil
}

// treeOfGossip is the source whose tree a message came along; "" is the shared tree.
func treeOfGossip(header *pb.Gossip, source string) string {
	own, along := header.GetOwnTree(), header.GetAlong()
	switch {
	case own && along == nil:
		return source
	case len(along) == sourceSize && !own:
		return string(along)
	}
	return ""
}

// accept delivers a new message, pushes it on, and queues its id for the others.
func (t *Topic) accept(m *message, from *link) {
	t.cache.store(m, t.port.Now())
	if m.sender != "" {
		t.port.Deliver(m.payload)
	}
	targets := t.targets(m, from)
	m.noteHolder(m.sender)
	for _, id := range targets {
		t.push(id, m)
	}
	if m.along != "" {
		t.announceAtOnce(m)
	}
	t.lazy.add(t, m)
}

// push sends a payload to a peer that isn't known to have it, if there is room for it.
func (t *Topic) push(id peer.ID, m *message) {
	if !contains(m.holders, id) && t.port.Push(id, m.payload, header(m)) {
		m.noteHolder(id)
	}
}

func header(m *message) *pb.Gossip {
	header := &pb.Gossip{Hops: proto.Uint32(min(m.hops+1, maxHops))}
	if m.along != "" && m.along == m.source {
		header.OwnTree = proto.Bool(true)
	} else if m.along != "" {
		header.Along = []byte(m.along)
	}
	return header
}

// targets are the neighbours to push a new message to; what it says of its tree is noted.
func (t *Topic) targets(m *message, from *link) []peer.ID {
	if m.along == "" {
		t.leading.note(m.source)
		if from != nil {
			if !from.eager && !contains(m.asked, from.id) {
				t.port.Send(from.id, controlGraft(&pb.Graft{})) // our PRUNE is still under way
			}
			from.eager = true
		}
		return t.eager()
	}
	// What others say of a message makes no tree; its own source does.
	tr := t.trees.known[m.along]
	if m.source == m.along {
		tr = t.trees.use(m.along)
	}
	if tr != nil {
		tr.carried++
	}
	switch {
	case m.goesDown() && tr != nil:
		tr.proven = !tr.rootAt.IsZero()
		t.onTreeMessage(tr, m)
		return slices.Clone(tr.children)
	case m.hops < floodHops:
		return t.neighbors()
	case tr == nil:
		return nil
	case tr.parent == "":
		return slices.Clone(tr.children)
	}
	return append(slices.Clone(tr.children), tr.parent)
}

// eager are the neighbours to push to in the shared tree.
func (t *Topic) eager() []peer.ID {
	found := []peer.ID{}
	for _, l := range t.links {
		if l.eager {
			found = append(found, l.id)
		}
	}
	return found
}

// announceAtOnce tells the neighbours that have us as their standby, and, if the message had to be
// asked for, our parent.
func (t *Topic) announceAtOnce(m *message) {
	tr := t.trees.known[m.along]
	if tr == nil || m.pushedFor() > 0 {
		return
	}
	to := []peer.ID{}
	if m.goesDown() {
		to = slices.Clone(tr.standbyOf)
	}
	if len(m.asked) > 0 && tr.parent != "" {
		to = with(to, tr.parent)
	}
	for _, id := range to {
		if !contains(m.holders, id) {
			t.announce(id, []*message{m})
			m.noteHolder(id)
		}
	}
}

// onDuplicate: a second copy is answered with PRUNE, but for the cases that docs/wire.md names.
func (t *Topic) onDuplicate(l *link, m *message) {
	m.noteHolder(l.id)
	asked := contains(m.asked, l.id)
	if len(m.asked) > 0 && !asked {
		t.notePushed(m)
	}
	tr := t.trees.known[m.along]
	switch {
	case m.along == "":
		if !l.eager || (l.id != m.sender && t.leading.prunes(m.source)) {
			l.eager = false
			t.port.Send(l.id, controlPrune(&pb.Prune{}))
		}
	case tr != nil && m.goesDown() && !asked: // others say nothing about the tree
		if len(m.asked) > 0 {
			tr.noteLate(l.id)
		} else {
			tr.noteServed(l.id)
		}
		if l.id != tr.parent {
			if role, told := tr.asked[l.id]; told && role == pushes {
				delete(tr.asked, l.id)
			}
			t.port.Send(l.id, controlPrune(&pb.Prune{Sources: sources(tr)}))
		}
	}
}

func (t *Topic) onPrune(l *link, message *pb.Prune) {
	if len(message.Sources)+len(message.Standby) == 0 {
		l.eager = false
		return
	}
	t.pruneTrees(l.id, message)
}

// linkBroadcast: a new neighbour starts eager, and is announced the newest messages and trees.
func (t *Topic) linkBroadcast(l *link) {
	if t.firstLink.IsZero() {
		t.firstLink = t.port.Now()
	}
	t.announceRecent(l)
	t.offerTrees(l)
	t.pieces.Up(l.id)
}

// unlinkBroadcast repairs the trees that a neighbour had a part in.
func (t *Topic) unlinkBroadcast(l *link) {
	if len(l.asked) > 0 || l.doubted { // what it owes it will owe when it comes back
		t.debtors.put(l.id, l.promises)
	}
	t.lazy.noteFailed(t, l)
	t.missing.gone(t, l.id)
	t.unlinkTrees(l.id)
	t.pieces.Down(l.id)
	if !l.eager {
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
