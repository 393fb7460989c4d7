package core

import (
	"github.com/libp2p/go-libp2p/core/peer"
)

// Upkeep of links: a neighbour that has sent nothing for a while is queried, and its link fails if it leaves
// queries unanswered.

func (t *Topic) checkLinks() {
	for _, l := range t.links {
		if t.port.Now().Sub(l.heardAt) >= t.checks.interval/2 {
			t.doubt(l.id, silentQueries)
		}
	}
	t.checks.next()
}

// doubt is called when a neighbour should have sent something: once it has been silent for a while, it is
// queried so many times, at most, before its link fails.
func (t *Topic) doubt(id peer.ID, queries int) {
	l := t.link(id)
	if l == nil {
		return
	}
	if l.answer.isSet() {
		l.queriesLeft = min(l.queriesLeft, queries)
		return
	}
	l.doubtedAt, l.queriesLeft = l.heardAt, queries
	if silentAt := l.heardAt.Add(suspicious); t.port.Now().Before(silentAt) {
		l.answer.set(silentAt)
	} else {
		t.onSilence(l)
	}
}

// onSilence: a doubted neighbour has had its time. It is queried again, or the link ends.
func (t *Topic) onSilence(l *link) {
	if l.heardAt.After(l.doubtedAt) {
		return
	}
	if l.queriesLeft > 0 {
		l.queriesLeft--
		t.query(l, true)
		l.answer.set(t.port.Now().Add(answerTimeout))
		return
	}
	t.checks.start() // what was silent may not be the only one
	t.failed(l.id, true)
}

// failed ends a link whose other end is silent or gone, replaces it, and has the peer tried again later.
// Others may be gone, too: it shuffles soon.
func (t *Topic) failed(id peer.ID, notify bool) {
	l := t.link(id)
	l.failed = true
	t.dropLink(id, notify, false)
	t.search.lost.put(id, 0)
	t.reconnects.hasten()
	t.shuffles.hasten()
	t.replaceLink(id)
}
