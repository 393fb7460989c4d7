package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
)

// search finds the peers next to this node on each ring, and goes back to lost ones. Contacts and ring
// neighbours are asked for nodes, and name the peers next to the asker that they know; each answer
// leads to a nearer peer, which is asked in turn.
type search struct {
	candidates []peer.ID  // the nearest known on each ring, neighbours or not
	lost       table[int] // how often each neighbour whose link has failed was tried
}

// searchRound asks a ring neighbour for nodes; a contact, too, in the first rounds and the rarest.
func (t *Topic) searchRound() {
	if t.isInNeed() && len(t.passive) == 0 {
		t.searches.start()
	} else {
		t.searches.next()
	}
	found := t.ringNeighbors()
	contacts := slices.DeleteFunc(slices.Clone(t.joining.contacts), func(id peer.ID) bool {
		return contains(found, id)
	})
	if interval := t.searches.interval; len(found) > 0 && searchContacts < interval && interval < t.searches.most {
		contacts = nil
	}
	for _, id := range append(t.sample(found, 1), t.sample(contacts, 1)...) {
		t.askForNodes(id, 2*rings)
	}
	t.learnPlaces(t.passive.ids())
}

// reconnect asks lost neighbours for a link, as no view of the other half of a partition names them.
func (t *Topic) reconnect() {
	for _, id := range t.sample(t.search.lost.ids, triedAtOnce) {
		if t.search.lost.of[id]++; t.search.lost.of[id] >= maxTries {
			t.search.lost.take(id)
		}
		t.ask(id, func() { t.sendJoin(id, 0) })
	}
	if len(t.search.lost.ids) > 0 {
		t.reconnects.next()
	}
}

// learnPlaces takes peers for candidates, and asks the nearest; false if there is none to ask.
func (t *Topic) learnPlaces(ids []peer.ID) bool {
	t.search.candidates = t.nearest(t.me, append(t.search.candidates, ids...), rememberedEach)
	return t.askNearest()
}

// askNearest asks those that would be next to this node for links.
func (t *Topic) askNearest() bool {
	willing := slices.DeleteFunc(slices.Clone(t.search.candidates), t.hasRefused)
	found := slices.DeleteFunc(t.ringNeighbors(willing...), func(id peer.ID) bool {
		return t.link(id) != nil
	})
	for _, id := range found {
		t.request(id, random)
	}
	return len(found) > 0
}

// onRingRefusal: a peer has refused a place on a ring, or isn't there. The next is asked in its place,
// and that peer for nodes, as it may know a nearer one.
func (t *Topic) onRingRefusal(id peer.ID) {
	connected := t.port.Connected(id)
	if !connected {
		t.search.candidates = without(t.search.candidates, id)
	}
	if !t.isNext(id) {
		return
	}
	if connected {
		t.askForNodes(id, nodesBetween)
	}
	if !t.askNearest() && !connected {
		t.searches.start()
	}
}

// onRingLost: if a lost neighbour was next to this node, the next is asked in its place, and it
// searches again later, or soon where none is known.
func (t *Topic) onRingLost(id peer.ID) {
	t.search.candidates = without(t.search.candidates, id)
	switch {
	case !t.isNext(id):
	case t.learnPlaces(t.passive.ids()):
		t.searches.setEarliest(t.port.Now().Add(searchAgain))
	default:
		t.searches.start()
	}
}
