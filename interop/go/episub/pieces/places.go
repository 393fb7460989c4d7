package pieces

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Places in our own part of a tree, and parents that are left.

// onGraft: a neighbour asks for a place, and says what it lacks.
func (m *Machine) onGraft(from peer.ID, source string, wants []want) {
	t := m.trees.get(source)
	hasRoom := t != nil && (t.children.has(from) || m.trees.hasRoom(t))
	switch {
	case hasRoom && t.stands() && from != t.parent:
		m.accept(t, from, wants)
	case hasRoom && t.asking != "" && t.asking != from && from != t.parent:
		// Asked on the word of our announcement: it has its place when we have ours.
		t.children.remove(from)
		t.stopWaiting(from)
		t.waiting = append(t.waiting, waiter{from, wants})
	default:
		m.refusePlace(from, source, t)
	}
}

func (m *Machine) refusePlace(id peer.ID, source string, t *tree) {
	instead := []peer.ID{}
	if t != nil {
		instead = append(instead, t.children...)
		for _, w := range t.waiting {
			instead = append(instead, w.id)
		}
	}
	m.sendPrune(id, source, slices.DeleteFunc(instead, func(other peer.ID) bool { return other == id })...)
}

// accept makes a neighbour our child, and sends it what it lacks.
func (m *Machine) accept(t *tree, child peer.ID, wants []want) {
	t.children.add(child)
	now := m.port.Now()
	m.sendOffer(child, true, t)
	for _, found := range m.transfers.ofSource(t.source) {
		index := slices.IndexFunc(wants, func(w want) bool { return w.id == found.id })
		switch {
		case index >= 0:
			found.has[child] = found.everything().without(wants[index].missing)
		case found.isWhole() && now.Sub(found.wholeAt) >= recent:
			continue // it may be long past; a newcomer is announced it when it says hello
		default:
			m.announce(found, child)
		}
		m.push(found, child, found.everything())
	}
}

// onPrune: a neighbour isn't our parent, or isn't our child any more.
func (m *Machine) onPrune(from peer.ID, message *pb.PiecePrune) {
	t := m.trees.get(string(message.Source))
	if t == nil {
		return
	}
	for _, found := range m.transfers.ofSource(t.source) {
		m.port.Forget(from, found.id)
	}
	hadRoom := m.trees.hasRoom(t)
	if t.stopWaiting(from) {
		return
	}
	if t.children.remove(from) {
		if t.stands() && !hadRoom {
			m.offerPlaces(t)
		}
		return
	}
	if from != t.asking && from != t.parent {
		m.port.Refused(from, unsolicited)
		return
	}
	if t.asking == from {
		t.asking, t.askAt = "", time.Time{}
	}
	if t.parent == from {
		t.parent = ""
	}
	now := m.port.Now()
	t.bar(from, now.Add(retryTime))
	for _, child := range readNamed(message) {
		if m.takers.has(child) {
			// Its rank isn't known; with children of our own we wait for its own word.
			t.setOffer(child, maxRank, now, true)
		}
	}
	m.seek(t)
	m.improve(t)
}

// leaveParent looks for another parent: this one is too slow, or has failed, as it brought nothing. Where
// all but our children have failed it was probably not them.
func (m *Machine) leaveParent(t *tree, failed bool) {
	now := m.port.Now()
	if t.parent != "" {
		m.sendPrune(t.parent, t.source)
		wait := retryTime
		if failed {
			wait = failedFor
		}
		t.bar(t.parent, now.Add(wait))
		t.parent = ""
	}
	others := slices.ContainsFunc(m.givers(), func(id peer.ID) bool {
		return !t.barred[id].After(now.Add(retryTime)) && !t.children.has(id)
	})
	if !others {
		clear(t.barred)
	}
	m.seek(t)
}

// judgeParent: a message is whole, and a parent from before it that brought nothing of it has failed.
func (m *Machine) judgeParent(found *transfer) {
	t := m.trees.get(found.source)
	switch {
	case t == nil:
	case t.parent != "" && t.pushedAt.Before(found.announcedAt):
		m.leaveParent(t, true)
	default:
		m.improve(t)
	}
}

// leave has a neighbour as a parent in no tree.
func (m *Machine) leave(id peer.ID) {
	for _, t := range slices.Clone(m.trees) {
		switch id {
		case t.parent:
			m.leaveParent(t, true)
		case t.asking:
			t.asking, t.askAt = "", time.Time{}
			m.sendPrune(id, t.source)
			m.seek(t)
		}
	}
}

// unlinkTrees makes do without a neighbour.
func (m *Machine) unlinkTrees(id peer.ID) {
	for _, t := range slices.Clone(m.trees) {
		needed := id == t.parent || id == t.asking
		hadRoom := m.trees.hasRoom(t)
		t.remove(id)
		if needed {
			m.seek(t)
		} else if t.stands() && !hadRoom {
			m.offerPlaces(t)
		}
	}
}
