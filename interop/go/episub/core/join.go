package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// joining is the joining node's side of a join: GETNODES to contacts, then JOINs that walk.
type joining struct {
	contacts []peer.ID
	asked    map[peer.ID]bool // and whether it has answered
	started  map[peer.ID]bool // where JOINs start, and whether the dial is under way
	walking  bool
	ttl      uint32
	open     openJoins
	round    int // of timers; those of earlier rounds do nothing
	active   bool
}

// Contact is called with a peer that is connected and has announced the topic.
func (t *Topic) Contact(id peer.ID) {
	j := &t.joining
	if !slices.Contains(j.contacts, id) {
		j.contacts = append(j.contacts, id)
		if len(j.contacts) > maxContacts { // the oldest lead back after a partition
			j.contacts = slices.Delete(j.contacts, maxContacts/2, maxContacts/2+1)
		}
	}
	if len(t.passive) < passiveSize {
		t.passive.add(t, id, "", 0)
	}
	t.join()
}

// join starts a join where there are no neighbours.
func (t *Topic) join() {
	j := &t.joining
	if j.active || len(t.links) > 0 || len(t.growth.asked) > 0 || len(j.contacts) == 0 {
		return
	}
	j.active, j.walking, j.ttl = true, false, joinTTL
	j.asked, j.started = map[peer.ID]bool{}, map[peer.ID]bool{}
	chosen := t.disjoint(j.contacts, contactsAsked)
	for _, id := range chosen {
		j.asked[id] = false
	}
	t.joinDeadline()
	for _, id := range chosen {
		t.port.Dial(id, func(up bool) {
			if _, waiting := j.asked[id]; !waiting {
				return
			}
			if up {
				t.port.Send(id, controlGetNodes())
				return
			}
			delete(j.asked, id)
			t.walkWhenAnswered()
		})
	}
}

// disjoint are random ones of these peers, of as many groups as there are: no single party is to choose
// what a node that joins learns.
func (t *Topic) disjoint(ids []peer.ID, count int) []peer.ID {
	groups, first, others := map[string]bool{}, []peer.ID{}, []peer.ID{}
	for _, id := range t.sample(ids, len(ids)) {
		if group := t.port.Group(id); group == "" || !groups[group] {
			groups[group] = true
			first = append(first, id)
		} else {
			others = append(others, id)
		}
	}
	found := append(first, others...)
	return found[:min(count, len(found))]
}

func (t *Topic) joinDeadline() {
	j := &t.joining
	j.round++
	round, patience := j.round, nodesTimeout
	if j.walking {
		patience = joinTimeout
	}
	t.after(t.jittered(patience), func() {
		if j.active && j.round == round {
			t.joinTimeout()
		}
	})
}

func (t *Topic) onNodes(from peer.ID, message *pb.Nodes) {
	found := t.learn(message.Peers)
	j := &t.joining
	if t.lost.contact == from {
		t.lost.contact = ""
	} else if answered, asked := j.asked[from]; asked && !answered {
		j.asked[from] = true
		j.ttl = min(j.ttl, message.GetTtl())
	} else {
		t.takeOffered(from, found)
		return
	}
	t.passive.add(t, from, "", 0)
	for _, id := range found[:min(len(found), nodesPeers)] {
		t.passive.add(t, id, from, 0)
	}
	t.walkWhenAnswered()
}

func (t *Topic) walkWhenAnswered() {
	j := &t.joining
	if !j.active || j.walking {
		return
	}
	for _, answered := range j.asked {
		if !answered {
			return
		}
	}
	t.walk()
}

// walk sends the JOINs that are still needed, from connected nodes of the view if there are any.
func (t *Topic) walk() {
	j := &t.joining
	dialling := 0
	for _, waiting := range j.started {
		if waiting {
			dialling++
		}
	}
	starts := t.joinStarts(randomLinks - len(t.links) - dialling)
	if len(starts) == 0 && dialling == 0 {
		j.active = false
		return
	}
	j.walking = true
	t.joinDeadline()
	for _, id := range starts {
		j.started[id] = true
		t.port.Dial(id, func(up bool) {
			if _, waiting := j.started[id]; waiting && j.active && !t.left {
				j.started[id] = false
				if up {
					j.open.add(t.port.Now())
					t.sendJoin(id, j.ttl)
					t.joinDeadline()
				}
			}
		})
	}
}

func (t *Topic) joinStarts(count int) []peer.ID {
	count = max(count, 0)
	fresh, again, connected := []peer.ID{}, []peer.ID{}, []peer.ID{}
	for _, id := range t.sample(t.passive.ids(), passiveSize) {
		if _, used := t.joining.started[id]; used {
			again = append(again, id)
		} else if fresh = append(fresh, id); t.port.Connected(id) {
			connected = append(connected, id)
		}
	}
	if len(connected) > 0 { // a walk forgets where it started
		starts := []peer.ID{}
		for i := range count {
			starts = append(starts, connected[i%len(connected)])
		}
		return starts
	}
	found := append(fresh, again...)
	return found[:min(count, len(found))]
}

// joinTimeout: no answer, or links are still missing. The next walks are shorter.
func (t *Topic) joinTimeout() {
	j := &t.joining
	switch {
	case !j.walking:
		t.walk()
	case len(t.links) >= randomLinks || j.ttl == 0:
		j.active = false
	default:
		j.ttl--
		t.walk()
	}
}

// joined is called with each new link.
func (t *Topic) joined() {
	if len(t.links) >= randomLinks {
		t.joining.active = false
	}
}
