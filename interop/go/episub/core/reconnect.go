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
	silent   []silence
	contact  peer.ID // that was asked for nodes
}

// silence of a link that failed, where it was longer than what any new neighbour is announced.
type silence struct{ noticed, since time.Time }

func (r *reconnection) note(id peer.ID, heardAt, now time.Time) {
	if quiet := now.Sub(heardAt); quiet > announceSince {
		r.silent = append(r.silent, silence{now, now.Add(-min(quiet, together))})
		r.silent = r.silent[max(0, len(r.silent)-maxContacts):]
	}
	if len(r.tries) < maxLost {
		r.tries[id] = 0
	}
	if len(r.failed) >= maxContacts {
		clear(r.failed)
	}
	r.failed[id] = now
}

// gap is since when messages may not have come or gone: several links that failed just now were
// silent. Where one did at most, others brought what it didn't.
func (r *reconnection) gap(now time.Time) (since time.Time, is bool) {
	for len(r.silent) > 0 && now.Sub(r.silent[0].noticed) > together {
		r.silent = r.silent[1:]
	}
	since = now
	for _, silence := range r.silent {
		if silence.since.Before(since) {
			since = silence.since
		}
	}
	return since, len(r.silent) > 1
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
				t.requests.open(id, t.port.Now())
				t.sendJoin(id, 0)
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
