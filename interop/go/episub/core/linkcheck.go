package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// checkLinks queries neighbours that have been silent, and suspects those that were for too long and
// have left a query unanswered: one query, or its answer, may be lost. After a pause of this process
// all have been silent for as long, as nothing was asked of them.
func (t *Topic) checkLinks() {
	now := t.port.Now()
	for _, l := range t.links {
		switch silence := now.Sub(l.heardAt); {
		case silence >= silentChecks*checkInterval && l.queriedAt.After(l.heardAt):
			t.suspect(l.id)
		case silence >= checkInterval/2:
			l.queriedAt = now
			t.query(l)
		}
	}
}

// suspect is called when a neighbour should have sent something: it is queried once it has been
// silent for a while, and its link fails if it doesn't answer.
func (t *Topic) suspect(id peer.ID) {
	l := t.link(id)
	if l == nil || l.suspectAt.After(l.heardAt) {
		return
	}
	at := t.port.Now()
	l.suspectAt = at
	t.after(suspicious-at.Sub(l.heardAt), func() {
		if l.suspectAt != at || !l.silentSince(at) {
			return
		}
		t.query(l)
		t.after(answerTimeout, func() {
			if l.suspectAt == at && l.silentSince(at) && t.link(id) == l {
				t.linksFailed(id)
			}
		})
	})
}

func (l *link) silentSince(at time.Time) bool { return !l.heardAt.After(at) }

// linksFailed replaces neighbours that are gone, and has them tried again later.
func (t *Topic) linksFailed(ids ...peer.ID) {
	for _, id := range ids {
		l := t.link(id)
		if t.dropLink(id, true, false) {
			t.lost.note(id, l.heardAt, t.port.Now())
		}
	}
	if len(ids) > 0 {
		t.replaceLinks()
	}
}
