package pieces

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// How the narrow tree of a source is built: places are offered, asked for, given and refused.

const (
	answerTime  = time.Second
	waitTime    = 300 * time.Millisecond // of one that only announced a message
	retryTime   = time.Second
	worthMoving = 30 // milliseconds that another way must save
	hopTime     = 20 // that a piece takes through one node
	usualLink   = 50 // of the way to a neighbour of which nothing is known
)

// rankBelow is our rank as a child of a neighbour of this rank.
func (m *Machine) rankBelow(parent peer.ID, rank int) int {
	way := usualLink
	if rtt := m.port.RTT(parent); rtt > 0 {
		way = int((rtt/2 + time.Millisecond/2) / time.Millisecond)
	}
	return rank + hopTime + way
}

func (m *Machine) sendOffer(to peer.ID, accepted bool, of ...*tree) {
	message := &pb.PieceOffer{}
	for _, t := range of[:min(len(of), maxOffers)] {
		message.Offers = append(message.Offers, &pb.TreeOffer{
			Source: []byte(t.source), Rank: proto.Uint32(uint32(min(t.rank, maxRank-1))),
		})
	}
	if accepted {
		message.Accepted = &accepted
	}
	m.port.Send(to, &pb.Control{Message: &pb.Control_PieceOffer{PieceOffer: message}})
}

func (m *Machine) sendPrune(to peer.ID, source string, instead ...peer.ID) {
	message := &pb.PiecePrune{Source: []byte(source)}
	for _, id := range instead[:min(len(instead), maxNamed)] {
		message.Instead = append(message.Instead, []byte(id))
	}
	m.port.Send(to, &pb.Control{Message: &pb.Control_PiecePrune{PiecePrune: message}})
}

// greet tells a new neighbour that we take pieces, and where we have places.
func (m *Machine) greet(id peer.ID) {
	m.sendOffer(id, false, slices.DeleteFunc(slices.Clone(m.trees), func(t *tree) bool {
		return !t.stands() || !m.trees.hasRoom(t)
	})...)
}

// offerPlaces offers places in a tree that stands here to all that may need one.
func (m *Machine) offerPlaces(t *tree) {
	if !m.trees.hasRoom(t) {
		return
	}
	for _, id := range m.takers {
		if id != t.parent && !t.children.has(id) {
			m.sendOffer(id, false, t)
		}
	}
}

// onOffer: a neighbour has places, or has given us one.
func (m *Machine) onOffer(from peer.ID, message *pb.PieceOffer) {
	for _, offered := range readOffers(message) {
		t := m.trees.get(offered.source)
		if t == nil {
			t = m.trees.use(offered.source, m.port.Now())
		}
		if t.own {
			continue
		}
		now := m.port.Now()
		t.setOffer(from, offered.rank, now, false)
		if !t.barred[from].After(now.Add(retryTime)) { // it has refused, and not failed
			delete(t.barred, from)
		}
		switch {
		case !message.GetAccepted():
			m.seek(t)
			m.improve(t)
		case t.asking == from:
			m.attach(t, from, offered.rank)
		case t.parent == from:
			m.takeRank(t, offered.rank)
		default: // its answer came too late
			m.sendPrune(from, t.source)
		}
	}
}

// attach makes a neighbour the parent.
func (m *Machine) attach(t *tree, parent peer.ID, rank int) {
	t.asking, t.askAt = "", time.Time{}
	if t.children.has(parent) || (len(t.children) > 0 && rank >= t.rank) {
		// Nearer when we asked; below us it would close a circle.
		m.sendPrune(parent, t.source)
		t.bar(parent, m.port.Now().Add(retryTime))
		m.seek(t)
		return
	}
	before := t.parent
	if before != "" && before != parent {
		m.sendPrune(before, t.source)
	}
	t.parent, t.pushedAt = parent, m.port.Now()
	m.takeRank(t, rank)
	if before != "" {
		m.improve(t)
		return
	}
	t.stopWaiting(parent) // it found another place
	waiting := t.waiting
	t.waiting = nil
	for _, w := range waiting {
		m.accept(t, w.id, w.wants)
	}
	m.offerPlaces(t)
}

// takeRank: the parent has this rank; those below us are as much nearer to the source as we are.
func (m *Machine) takeRank(t *tree, rank int) {
	below, before := m.rankBelow(t.parent, rank), t.rank
	if t.rank = below; len(t.children) > 0 {
		t.rank = min(before, below)
	}
	if t.rank < before {
		for _, child := range t.children {
			m.sendOffer(child, true, t)
		}
		m.offerPlaces(t)
	}
}

// improve asks for a place on a shorter way, between messages: the first one builds the tree in a
// hurry.
func (m *Machine) improve(t *tree) {
	if t.parent == "" || t.asking != "" || m.transfers.isUnderWay(t.source) {
		return
	}
	best, shortest := peer.ID(""), t.rank-worthMoving+1
	for _, o := range m.candidates(t) {
		if way := m.rankBelow(o.from, o.rank); t.announcers.has(o.from) && way < shortest {
			best, shortest = o.from, way
		}
	}
	if best != "" {
		m.askForPlace(t, best, answerTime)
	}
}

func (m *Machine) candidates(t *tree) []offer {
	return t.candidates(m.givers(), m.port.Now(), m.port.RTT)
}

// seek asks for a place, if we need one and haven't asked.
func (m *Machine) seek(t *tree) {
	if t.stands() || t.asking != "" {
		return
	}
	now := m.port.Now()
	found := m.candidates(t)
	if len(found) == 0 && len(t.children) > 0 {
		// Only those below us, or as far, have places. Without children we may take any.
		for _, child := range t.children {
			m.sendPrune(child, t.source)
		}
		t.children = nil
		found = m.candidates(t)
	}
	if len(found) == 0 {
		waiting := t.waiting
		t.waiting = nil
		for _, w := range waiting {
			m.refusePlace(w.id, t.source, t)
		}
		if at := now.Add(retryTime); m.transfers.isUnderWay(t.source) && (t.askAt.IsZero() || at.Before(t.askAt)) {
			t.askAt = at
		}
		return
	}
	patience := answerTime
	if found[0].rank >= maxRank {
		patience = waitTime
	}
	m.askForPlace(t, found[0].from, patience)
}

// askForPlace asks a neighbour, which has so long to answer.
func (m *Machine) askForPlace(t *tree, of peer.ID, patience time.Duration) {
	t.asking, t.askAt = of, m.port.Now().Add(patience)
	message := &pb.PieceGraft{Source: []byte(t.source)}
	known := m.transfers.ofSource(t.source)
	for _, found := range known[max(0, len(known)-maxWants):] {
		message.Wants = append(message.Wants, &pb.PieceWant{
			Id: found.wire.Id, Missing: found.missing().bytes(),
		})
	}
	m.port.Send(of, &pb.Control{Message: &pb.Control_PieceGraft{PieceGraft: message}})
}

// fireTrees asks others where an answer is overdue, or all had refused.
func (m *Machine) fireTrees(now time.Time) {
	for _, t := range slices.Clone(m.trees) {
		if t.askAt.IsZero() || t.askAt.After(now) {
			continue
		}
		t.askAt = time.Time{}
		if t.asking != "" {
			if t.bar(t.asking, now.Add(retryTime)); !m.transfers.isUnderWay(t.source) {
				t.forgetOffer(t.asking) // until it says so again
			}
			if !t.children.has(t.asking) {
				m.sendPrune(t.asking, t.source)
			}
			t.asking = ""
		}
		m.seek(t)
	}
}

// noteSize: a long message leaves no room for the children that only a tree of short ones may have.
func (m *Machine) noteSize(t *tree, size int) {
	t.longest = max(t.longest, size)
	for len(t.children) > t.mostChildren() {
		last := t.children[len(t.children)-1]
		t.children.remove(last)
		m.refusePlace(last, t.source, t)
	}
}
