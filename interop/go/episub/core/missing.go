package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// announced is a message that others have and that has not come.
type announced struct {
	by    []announcer
	at    time.Time
	due   time.Time // when to ask for it, or to ask the next
	asked []peer.ID
}

type announcer struct {
	id   peer.ID
	hops uint32
}

// missingList has one timer for all of them.
type missingList struct {
	known map[string]*announced
	held  map[peer.ID]int // messages, by their first announcer
	next  time.Time       // when the timer fires; zero while nothing is missing
}

func (t *Topic) onIHave(l *link, message *pb.IHave) {
	now := t.port.Now()
	wait := t.waits.after(l.id)
	for _, entry := range message.Summary[:min(len(message.Summary), maxIDs)] {
		id := string(entry.GetId())
		if len(id) == 0 || len(id) > maxMessageID || entry.GetHops() < 1 || entry.GetHops() > maxHops {
			continue
		}
		if t.cache.known[id] != nil {
			t.lazy.hold(id, l.id)
			t.waits.alreadyKnown(l.id)
			continue
		}
		if t.pieces.Has(id) {
			continue // its pieces come
		}
		missing := t.missing.known[id]
		if missing == nil {
			if !t.missing.makeRoom(l.id) {
				continue
			}
			missing = &announced{at: now, due: now.Add(wait)}
			t.missing.known[id] = missing
			t.missing.held[l.id]++
		}
		known := slices.ContainsFunc(missing.by, func(by announcer) bool { return by.id == l.id })
		if !known && len(missing.by) < maxAnnouncers {
			missing.by = append(missing.by, announcer{l.id, entry.GetHops()})
			if len(missing.asked) == 0 && now.Add(wait).Before(missing.due) {
				missing.due = now.Add(wait)
			}
		}
		t.missing.wake(t, missing.due)
	}
}

// makeRoom is whether a peer may add a message. One has a quarter of the list at most; where that is
// full, one of the peer that holds most gives way, if that holds more.
func (m *missingList) makeRoom(id peer.ID) bool {
	if m.held[id] >= missingShare || len(m.known) < maxMissing {
		return m.held[id] < missingShare
	}
	most := id
	for other, count := range m.held {
		if count > m.held[most] {
			most = other
		}
	}
	if m.held[most] <= m.held[id]+1 {
		return false
	}
	victim, newest := "", (*announced)(nil)
	for other, missing := range m.known {
		if missing.by[0].id != most {
			continue
		}
		// Better one that nobody else announced, then the newest.
		alone, is := len(missing.by) == 1, newest != nil && len(newest.by) == 1
		if newest == nil || (alone && !is) || (alone == is && missing.at.After(newest.at)) {
			victim, newest = other, missing
		}
	}
	m.remove(victim)
	return true
}

// remove takes a message out, and returns its entry if there was one.
func (m *missingList) remove(id string) *announced {
	missing := m.known[id]
	if missing == nil {
		return nil
	}
	delete(m.known, id)
	first := missing.by[0].id
	if m.held[first]--; m.held[first] <= 0 {
		delete(m.held, first)
	}
	return missing
}

// wake has the timer fire at that time, if it wouldn't before.
func (m *missingList) wake(t *Topic, at time.Time) {
	if !m.next.IsZero() && !at.Before(m.next) {
		return
	}
	m.next = at
	t.after(at.Sub(t.port.Now()), func() {
		if m.next.Equal(at) {
			m.next = time.Time{}
			t.askMissing()
		}
	})
}

// askMissing asks for what is due, one announcer at a time.
func (t *Topic) askMissing() {
	now := t.port.Now()
	asked, next := map[peer.ID][][]byte{}, time.Time{}
	for id, missing := range t.missing.known {
		from := t.nextAnnouncer(missing)
		if !missing.due.After(now.Add(piggyback)) {
			switch {
			case now.Sub(missing.at) > lostAfter && (from == "" || slices.Contains(missing.asked, from)):
				t.missing.remove(id)
				continue
			case from == "":
				missing.due = now.Add(graftTimeout)
			default:
				t.suspectSilent(missing)
				missing.due = now.Add(t.patience(from) * missing.backOff(from))
				missing.asked = append(missing.asked, from)
				asked[from] = append(asked[from], []byte(id))
			}
		}
		if next.IsZero() || missing.due.Before(next) {
			next = missing.due
		}
	}
	for from, ids := range asked {
		for part := range slices.Chunk(ids, maxIDs) {
			t.port.Send(from, controlGraft(&pb.Graft{Ids: part}))
		}
	}
	if !next.IsZero() {
		t.missing.wake(t, next)
	}
}

// nextAnnouncer is the one that was asked least often, the earliest of them.
func (t *Topic) nextAnnouncer(missing *announced) peer.ID {
	best, least := peer.ID(""), 0
	for _, by := range missing.by {
		if t.link(by.id) == nil {
			continue
		}
		times := 0
		for _, id := range missing.asked {
			if id == by.id {
				times++
			}
		}
		if best == "" || times < least {
			best, least = by.id, times
		}
	}
	return best
}

// backOff is what the time to answer is multiplied by: twice as much for each time that a neighbour was
// asked for this message before, so that GRAFTs don't add to the load that delays their answers.
func (a *announced) backOff(id peer.ID) time.Duration {
	factor := time.Duration(1)
	for _, other := range a.asked {
		if other == id && factor < mostBackOff {
			factor *= 2
		}
	}
	return factor
}

// patience is how long a neighbour has to answer a GRAFT.
func (t *Topic) patience(id peer.ID) time.Duration {
	if l := t.link(id); l != nil && l.rtt > 0 {
		return min(graftTimeout, 2*l.rtt+answerTime)
	}
	return graftTimeout
}

// suspectSilent: those that should have pushed a message, and those that were asked for it, may be
// gone.
func (t *Topic) suspectSilent(missing *announced) {
	for _, l := range t.links {
		if l.parent || t.isTreeParent(l.id) || slices.Contains(missing.asked, l.id) {
			t.suspect(l.id)
		}
	}
}

// gone: what was asked of a neighbour is asked of the next one at once.
func (m *missingList) gone(t *Topic, id peer.ID) {
	for _, missing := range m.known {
		if len(missing.asked) > 0 && missing.asked[len(missing.asked)-1] == id {
			missing.due = t.port.Now()
			m.wake(t, missing.due)
		}
	}
}

func (t *Topic) onGraft(l *link, message *pb.Graft) {
	if len(message.Ids)+len(message.Sources)+len(message.Standby) == 0 {
		l.eager = true
	}
	for _, id := range message.Ids[:min(len(message.Ids), maxIDs)] {
		s := t.cache.known[string(id)]
		if t.pieces.Offer(string(id), l.id) || s == nil || s.message == nil {
			continue
		}
		if s.along == "" {
			l.eager = true
		}
		if s.served[l.id] < maxServed && t.push(l.id, s) {
			s.served[l.id]++
		}
	}
	t.graftTrees(l, message)
}
