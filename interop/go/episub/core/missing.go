package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Missing messages: announced with IHAVE, asked for with GRAFT.

// missingList has one timer for all of them.
type missingList struct{ timer timer }

// promises are what a neighbour owes: a GRAFT makes a promise, which any copy from there keeps. Its lag is
// the time from its announcement until a message comes by itself.
type promises struct {
	lag       time.Duration
	first     int // missing messages that it announced first
	asked     map[string]time.Time
	answered  time.Time // when it was asked for what it last brought in time
	payloadAt time.Time
	doubted   bool // its last promise was broken, or kept late
}

// owing is what a new neighbour owes already.
func (t *Topic) owing(id peer.ID) promises {
	if former, owes := t.debtors.take(id); owes {
		former.first = 0
		return former
	}
	return promises{lag: firstLag, asked: map[string]time.Time{}}
}

// noteLag: a message that it announced came by itself so much later.
func (p *promises) noteLag(late time.Duration) {
	if late > p.lag {
		p.lag = min(mostLag, p.lag+(late-p.lag)/4)
	} else {
		p.lag += (late - p.lag) / 20
	}
}

// keep: a copy of a message came from it.
func (p *promises) keep(id string, now time.Time) {
	p.payloadAt = now
	if since, asked := p.asked[id]; asked {
		if p.doubted = now.Sub(since) > lateAnswer; !p.doubted {
			p.answered = since
		}
		delete(p.asked, id)
	}
}

// unanswered is how many answers in a row it owes for longer than that, and one more if it is doubted:
// what was asked for before its last answer in time may have been lost.
func (p *promises) unanswered(now time.Time, patience time.Duration) (count int) {
	for id, since := range p.asked {
		if now.Sub(later(since, p.payloadAt)) > silence || now.Sub(since) > longestWait {
			delete(p.asked, id)
			p.doubted = p.doubted || since.After(p.answered)
		} else if since.After(p.answered) && now.Sub(since) > patience {
			count++
		}
	}
	if p.doubted {
		count++
	}
	return count
}

func (t *Topic) onIHave(l *link, announcement *pb.IHave) {
	now := t.port.Now()
	due := now.Add(l.lag*6/5 + lagMargin)
	for _, entry := range announcement.Summary[:min(len(announcement.Summary), maxIDs)] {
		id := string(entry.GetId())
		if len(id) == 0 || len(id) > maxMessageID || entry.GetHops() < 1 || entry.GetHops() > maxHops {
			continue
		}
		if known := t.cache.known[id]; known != nil {
			known.noteHolder(l.id)
			l.noteLag(0)
			// A parent ought to push: one that only announces would miss messages for ever.
			if tr := t.trees.known[known.along]; tr != nil && tr.parent != l.id {
				tr.noteServed(l.id)
			}
			continue
		}
		if t.pieces.Has(id) {
			continue // its pieces come
		}
		m := t.cache.open[id]
		if m == nil {
			if l.first >= maxEach || len(t.cache.open) >= maxMissing {
				t.port.Refused(l.id, "missing-full")
				continue
			}
			m = &message{id: id, informant: l.id, announcedAt: now, due: due}
			t.cache.open[id] = m
			l.first++
		} else if len(m.asked) == 0 {
			m.due = earlier(m.due, due)
		}
		m.noteHolder(l.id)
		t.missing.timer.setEarliest(m.due)
	}
}

// noteFirstCopy: the first copy of a message has come; perhaps it was missing.
func (t *Topic) noteFirstCopy(m *message) {
	if m.informant == "" {
		return
	}
	t.noteFound(m)
	if !contains(m.asked, m.sender) {
		t.notePushed(m)
	}
}

// notePushed: a copy of a message that was missing came without our asking.
func (t *Topic) notePushed(m *message) {
	if l := t.link(m.informant); l != nil {
		l.noteLag(t.port.Now().Sub(m.announcedAt))
	}
}

// noteFound: a message is missing no more.
func (t *Topic) noteFound(m *message) {
	if l := t.link(m.informant); l != nil && !m.announcedAt.Before(l.since) {
		l.first--
	}
}

// giveUp: a message is missing no more, though it didn't come.
func (t *Topic) giveUp(m *message) {
	t.noteFound(m)
	delete(t.cache.open, m.id)
}

// askMissing asks for what is due, one announcer at a time; beside what it asks for anyway, a little
// early.
func (t *Topic) askMissing() {
	now := t.port.Now()
	due := slices.SortedFunc(maps.Values(t.cache.open), func(a, b *message) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
	asked := map[peer.ID][][]byte{}
	for _, m := range due {
		if m.due.After(now.Add(piggyback)) {
			break
		}
		from := t.nextAnnouncer(m)
		if m.due.After(now) && (from == nil || asked[from.id] == nil) {
			continue
		}
		if t.asks(m, from) {
			asked[from.id] = append(asked[from.id], []byte(m.id))
		}
	}
	for _, l := range t.links {
		for part := range slices.Chunk(asked[l.id], maxIDs) {
			t.port.Send(l.id, controlGraft(&pb.Graft{Ids: part}))
		}
	}
	if len(asked) > 0 { // those that should have pushed, and those that were asked
		for _, id := range append(t.parents(), slices.Sorted(maps.Keys(asked))...) {
			t.doubt(id, 1)
		}
	}
	next := time.Time{}
	for _, m := range t.cache.open {
		if next.IsZero() || m.due.Before(next) {
			next = m.due
		}
	}
	if !next.IsZero() {
		t.missing.timer.set(next)
	}
}

// asks is whether a neighbour is to get a GRAFT for a message now.
func (t *Topic) asks(m *message, from *link) bool {
	now := t.port.Now()
	age := now.Sub(m.announcedAt)
	switch {
	case age <= lostAfter && from == nil:
		m.due = now.Add(lateAnswer)
		return false
	case age < lateAnswer && len(m.asked) == 0 && t.port.Arriving(): // it may be this one
		m.due = now.Add(piggyback)
		return false
	case age > lostAfter && (from == nil || m.timesAsked(from.id) > 1):
		t.port.Refused("", "message-lost")
		t.giveUp(m)
		return false
	}
	m.due = now.Add(t.patience(from) * time.Duration(min(1<<m.timesAsked(from.id), mostBackOff)))
	m.asked = append(m.asked, from.id)
	if _, owes := from.promises.asked[m.id]; !owes && len(from.promises.asked) < maxPromises {
		from.promises.asked[m.id] = now
	}
	return true
}

// nextAnnouncer is the one that was asked least often, of those one that isn't late, and the earliest.
func (t *Topic) nextAnnouncer(m *message) *link {
	best, least := (*link)(nil), 0
	for _, id := range m.holders {
		l := t.link(id)
		if l == nil {
			continue
		}
		rank := 2 * m.timesAsked(id)
		if rank == 0 && l.unanswered(t.port.Now(), t.patience(l)) > 0 {
			rank = 1
		}
		if best == nil || rank < least {
			best, least = l, rank
		}
	}
	return best
}

// patience is how long a neighbour has to answer a GRAFT.
func (t *Topic) patience(l *link) time.Duration {
	if l.rtt == nil {
		return lateAnswer
	}
	return min(lateAnswer, 2*l.rtt.mean+answerTime)
}

// parents are the neighbours that push to us, in whichever tree; in the shared one those that did last.
func (t *Topic) parents() []peer.ID {
	found := []peer.ID{}
	for _, m := range t.cache.kept[max(0, len(t.cache.kept)-8):] {
		if m.along == "" && t.link(m.sender) != nil {
			found = with(found, m.sender)
		}
	}
	for _, tr := range t.trees.order {
		if tr.parent != "" && t.fresh(tr) {
			found = with(found, tr.parent)
		}
	}
	return found
}

// gone: what was asked of a neighbour last is asked of the next one at once.
func (m *missingList) gone(t *Topic, id peer.ID) {
	for _, missing := range t.cache.open {
		if len(missing.asked) > 0 && missing.asked[len(missing.asked)-1] == id {
			missing.due = t.port.Now()
			m.timer.setEarliest(missing.due)
		}
	}
}

func (t *Topic) onGraft(l *link, graft *pb.Graft) {
	if len(graft.Ids)+len(graft.Sources)+len(graft.Standby) == 0 {
		l.eager = true
	}
	for _, id := range graft.Ids[:min(len(graft.Ids), maxIDs)] {
		m := t.cache.known[string(id)]
		if t.pieces.Offer(string(id), l.id) || m == nil || m.payload == nil {
			continue
		}
		if m.along == "" {
			l.eager = true
		}
		if m.served[l.id] < maxServed && t.port.Push(l.id, m.payload, header(m)) {
			m.served[l.id]++
		}
	}
	t.graftTrees(l, graft)
}
