package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// joining is the joining node's side of a join: GETNODES to contacts, whose answers name the peers next to
// this node, then JOINs that walk until C_rand links stand.
type joining struct {
	contacts  []peer.ID
	asked     table[time.Time] // peers asked for nodes, by whichever procedure
	awaited   []peer.ID        // contacts of this join that have yet to answer
	tried     []peer.ID        // where JOINs started
	active    bool
	walking   bool // contacts are no longer waited for
	ttl       uint32
	openUntil time.Time // until when a JOIN can be answered
	timer     timer
}

// Contact is called with a peer that is connected and has announced the topic.
func (t *Topic) Contact(id peer.ID) {
	j := &t.joining
	if j.contacts = with(j.contacts, id); len(j.contacts) > maxContacts {
		// The oldest lead back after a partition.
		j.contacts = slices.Delete(j.contacts, maxContacts/2, maxContacts/2+1)
	}
	if len(t.passive) < passiveSize {
		t.passive.add(t, id, "", nil)
	}
	if len(t.links) == 0 {
		t.join()
	}
}

// join asks some contacts for nodes.
func (t *Topic) join() {
	j := &t.joining
	if j.active || len(j.contacts) == 0 {
		return
	}
	j.active, j.walking, j.ttl = true, false, joinTTL
	t.waitForJoin(nodesTimeout)
	j.awaited = t.disjoint(j.contacts, contactsAsked)
	for _, id := range slices.Clone(j.awaited) {
		t.askForNodes(id, 0)
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

// askForNodes asks a peer for so many nodes, or as many as it gives if 0.
func (t *Topic) askForNodes(id peer.ID, count int) {
	t.dial(id, func(up bool) {
		j, now := &t.joining, t.port.Now()
		if !up {
			t.stopAwaiting(id)
		} else if now.Sub(j.asked.of[id]) >= nodesTimeout {
			j.asked.put(id, now)
			t.port.Send(id, controlGetNodes(count))
		}
	})
}

func (t *Topic) onNodes(from peer.ID, message *pb.Nodes) {
	found := t.learn(message.Peers)
	j := &t.joining
	if _, asked := j.asked.take(from); !asked {
		t.takeOffered(from, found)
		return
	}
	found = found[:min(len(found), nodesTaken)]
	t.passive.add(t, from, "", nil)
	for _, id := range found {
		t.passive.add(t, id, from, nil)
	}
	if contains(j.awaited, from) {
		j.ttl = min(j.ttl, message.GetTtl())
		t.stopAwaiting(from)
	}
	t.learnPlaces(append([]peer.ID{from}, found...))
	if !j.active && t.requests[from] == nil {
		t.release(from)
	}
}

// stopAwaiting: once no contact is waited for, the peers next on rings have some time to accept before
// JOINs are sent.
func (t *Topic) stopAwaiting(id peer.ID) {
	j := &t.joining
	if !contains(j.awaited, id) {
		return
	}
	if j.awaited = without(j.awaited, id); len(j.awaited) == 0 && !j.walking {
		j.walking = true
		t.waitForJoin(nodesTimeout)
	}
}

func (t *Topic) waitForJoin(d time.Duration) {
	t.joining.timer.set(t.port.Now().Add(t.withDialTime(d)))
}

// joinTimeout: no contact has answered, or links are still missing. The next walks are shorter.
func (t *Topic) joinTimeout() {
	j := &t.joining
	if !t.isInNeed() || (len(j.tried) > 0 && j.ttl == 0) {
		j.finish()
		return
	}
	if len(j.tried) > 0 {
		j.ttl--
	}
	t.walk()
}

// walk sends the JOINs that are still needed, from connected nodes of the view if there are any.
func (t *Topic) walk() {
	j := &t.joining
	starts := t.joinStarts(max(0, randomLinks-len(t.links)))
	if len(starts) == 0 {
		j.finish()
		return
	}
	j.walking = true
	t.waitForJoin(joinTimeout)
	ttl := j.ttl
	for _, id := range starts {
		j.tried = with(j.tried, id)
		t.dial(id, func(up bool) {
			if up && j.active {
				j.openUntil = t.port.Now().Add(joinLifetime)
				t.sendJoin(id, ttl)
			}
		})
	}
}

// joinStarts: others than before while there are any, first connected ones, as a dial costs more than
// the rest; a walk forgets where it started.
func (t *Topic) joinStarts(count int) []peer.ID {
	fresh, again, connected := []peer.ID{}, []peer.ID{}, []peer.ID{}
	for _, id := range t.sample(t.passive.ids(), passiveSize) {
		if contains(t.joining.tried, id) {
			again = append(again, id)
		} else if fresh = append(fresh, id); t.port.Connected(id) {
			connected = append(connected, id)
		}
	}
	found := append(fresh, again...)
	if len(connected) > 0 {
		found = slices.Repeat(connected, count)
	}
	return found[:min(count, len(found))]
}

// sendJoin sends a JOIN of this node.
func (t *Topic) sendJoin(id peer.ID, ttl uint32) {
	t.port.Send(id, controlJoin(&pb.Join{Peer: t.port.Info(t.me), Ttl: proto.Uint32(ttl)}))
}

func (j *joining) finish() {
	j.active, j.walking, j.tried, j.awaited = false, false, nil, nil
	j.timer.cancel()
}
