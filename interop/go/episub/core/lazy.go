package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// lazyQueue holds ids until they are announced.
type lazyQueue struct {
	ids     []string
	holders map[string][]peer.ID // neighbours that have the message
	only    map[peer.ID][]string // for single neighbours
	flushed time.Time
	waiting bool
}

// add announces a message to all neighbours but the holders when the timer fires.
func (q *lazyQueue) add(t *Topic, id string, holders []peer.ID) {
	if len(q.ids) >= maxMissing {
		return
	}
	q.ids = append(q.ids, id)
	q.holders[id] = holders
	q.start(t)
}

// hold notes that a neighbour has a message.
func (q *lazyQueue) hold(id string, holder peer.ID) {
	if holders, waits := q.holders[id]; waits && !slices.Contains(holders, holder) {
		q.holders[id] = append(holders, holder)
	}
}

// start has the timer fire soon after the first id, and not too soon after it last did.
func (q *lazyQueue) start(t *Topic) {
	if q.waiting {
		return
	}
	q.waiting = true
	now := t.port.Now()
	soon := time.Duration(float64(lazyDelay) * (0.1 + 0.9*t.rng.Float64()))
	spaced := q.flushed.Add(time.Duration(float64(lazyInterval) * (0.5 + t.rng.Float64()/2))).Sub(now)
	t.after(max(soon, spaced), t.flushLazy)
}

func (t *Topic) flushLazy() {
	q := &t.lazy
	ids, holders, only := q.ids, q.holders, q.only
	q.ids, q.holders, q.only = nil, map[string][]peer.ID{}, map[peer.ID][]string{}
	q.waiting, q.flushed = false, t.port.Now()
	for _, l := range t.links {
		wanted := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			return slices.Contains(holders[id], l.id)
		})
		t.announce(l.id, append(wanted, only[l.id]...))
	}
}

func (t *Topic) announce(to peer.ID, ids []string) {
	for part := range slices.Chunk(ids, maxIDs) {
		summary := []*pb.MessageSummary{}
		for _, id := range part {
			if s := t.cache.known[id]; s != nil && s.message != nil {
				summary = append(summary, &pb.MessageSummary{
					Id: []byte(id), Hops: proto.Uint32(min(s.hops+1, maxHops)),
				})
			}
		}
		if len(summary) > 0 {
			t.port.Send(to, controlIHave(&pb.IHave{Summary: summary}))
		}
	}
}

// announceRecent announces the last seconds' messages to a new neighbour; to one whose link had
// failed all since a little before, and after several links failed all since those were silent.
func (t *Topic) announceRecent(l *link) {
	since, most := t.port.Now().Add(-announceSince), maxIDs
	if failed, was := t.lost.failed[l.id]; was {
		delete(t.lost.failed, l.id)
		since, most = failed.Add(-unnoticed), maxAnnounced
	} else if gap, is := t.lost.gap(t.port.Now()); is && gap.Before(since) {
		since, most = gap, maxAnnounced
	}
	if ids := t.cache.since(since, most); len(ids) > 0 {
		t.lazy.only[l.id] = ids
		t.lazy.start(t)
	}
}
