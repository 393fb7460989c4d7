package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// reconnection tries lost neighbours and contacts again, so that the halves of a partition merge.
type reconnection struct {
	tries    map[peer.ID]int
	rejoined map[peer.ID]bool // reached in this period, and sent a JOIN
	failed   map[peer.ID]time.Time
	contact  peer.ID // that was asked for nodes
}

func (r *reconnection) note(id peer.ID, now time.Time) {
	if len(r.tries) < maxLost {
		r.tries[id] = 0
	}
	if len(r.failed) >= maxContacts {
		clear(r.failed)
	}
	r.failed[id] = now
}

func (t *Topic) reconnect() {
	r := &t.lost
	clear(r.rejoined)
	lost := []peer.ID{}
	for id := range r.tries {
		lost = append(lost, id)
	}
	for _, id := range t.sample(lost, 2) {
		if r.tries[id]++; r.tries[id] >= maxTries {
			delete(r.tries, id)
		}
		t.port.Dial(id, func(up bool) {
			if up && !t.left && t.link(id) == nil {
				r.rejoined[id] = true
				t.sendJoin(id, 0, t.requests.open(id, t.port.Now()))
			}
		})
	}
	if len(t.links) < randomLinks && len(t.passive) == 0 {
		t.askContact()
	}
}

// askContact asks a contact that is no neighbour for nodes, which joins overlays that never were
// one.
func (t *Topic) askContact() {
	distant := []peer.ID{}
	for _, id := range t.joining.contacts {
		if t.link(id) == nil {
			distant = append(distant, id)
		}
	}
	for _, id := range t.sample(distant, 1) {
		t.port.Dial(id, func(up bool) {
			if up && !t.left {
				t.lost.contact = id
				t.port.Send(id, controlGetNodes())
			}
		})
	}
}
