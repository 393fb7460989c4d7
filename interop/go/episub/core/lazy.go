package core

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// lazyQueue holds messages until they are announced. Its times are random, so that of two neighbours one
// announces first, and the other need not.
type lazyQueue struct {
	waiting []*message
	flushed time.Time
	timer   timer
	failed  table[failure]
}

// failure is when a link failed, and since when it was silent.
type failure struct{ at, since time.Time }

// add announces a message to all neighbours but the holders when the timer fires.
func (q *lazyQueue) add(t *Topic, m *message) {
	if len(t.neighbors(m.holders...)) == 0 {
		m.announced = true
		return
	}
	q.waiting = append(q.waiting, m)
	q.waiting = q.waiting[max(0, len(q.waiting)-maxQueued):]
	q.start(t, m.pushedFor())
}

// start has the timer fire soon after the first id, and not too soon after it last did.
func (q *lazyQueue) start(t *Topic, after time.Duration) {
	if q.timer.isSet() {
		return
	}
	at := t.port.Now().Add(after + time.Duration(float64(lazyDelay)*(0.1+0.9*t.rng.Float64())))
	spaced := q.flushed.Add(time.Duration(float64(lazyInterval) * (0.5 + t.rng.Float64()/2)))
	if spaced.After(at) {
		at = spaced
	}
	q.timer.set(at)
}

func (t *Topic) flushLazy() {
	q := &t.lazy
	waiting := q.waiting
	q.waiting, q.flushed = nil, t.port.Now()
	for _, l := range t.links {
		wanted := slices.DeleteFunc(slices.Clone(waiting), func(m *message) bool {
			return contains(m.holders, l.id)
		})
		t.announce(l.id, append(wanted, l.owed...))
		l.owed = nil
	}
	for _, m := range waiting {
		m.holders, m.announced = nil, true
	}
}

func (t *Topic) announce(to peer.ID, messages []*message) {
	for part := range slices.Chunk(messages, maxIDs) {
		summary := []*pb.MessageSummary{}
		for _, m := range part {
			if m.payload != nil {
				summary = append(summary, &pb.MessageSummary{
					Id: []byte(m.id), Hops: proto.Uint32(min(m.hops+1, maxHops)),
				})
			}
		}
		if len(summary) > 0 {
			t.port.Send(to, controlIHave(&pb.IHave{Summary: summary}))
		}
	}
}

// announceRecent announces the newest messages to a new neighbour: since its former link, or several
// others, fell silent.
func (t *Topic) announceRecent(l *link) {
	now := t.port.Now()
	gap, silent := now, 0
	for _, failed := range t.lazy.failed.of {
		if now.Sub(failed.at) > together {
			continue
		}
		silent++
		gap = earlier(gap, later(failed.since, failed.at.Add(-together)))
	}
	if silent < 2 {
		gap = now
	}
	if former, was := t.lazy.failed.of[l.id]; was {
		gap = former.since
	}
	most := maxAnnounced
	if gap.Equal(now) {
		most = maxIDs
	}
	l.owed = t.cache.recent(gap.Add(-announceSince), t.firstLink.Add(newcomer), most)
	if len(l.owed) > 0 {
		t.lazy.start(t, 0)
	}
}

// noteFailed remembers a failed link; one that had just come back failed when its former one did.
func (q *lazyQueue) noteFailed(t *Topic, l *link) {
	now := t.port.Now()
	former, was := q.failed.take(l.id)
	was = was && now.Sub(l.since) <= together
	since := now
	if l.failed {
		since = l.heardAt
	}
	if was {
		since = earlier(since, former.since)
	}
	if was || l.failed {
		q.failed.put(l.id, failure{now, since})
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}
