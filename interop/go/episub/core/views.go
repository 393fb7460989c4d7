package core

import (
	"math"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

const (
	random = pb.Neighbor_RANDOM
	near   = pb.Neighbor_NEAR
)

// link is an entry of the active view.
type link struct {
	id       peer.ID
	kind     pb.Neighbor_Kind
	group    string
	since    time.Time
	rtt      *roundTrip // nil while it isn't known
	badPings int

	heardAt     time.Time // when it last sent what only a neighbour sends
	doubtedAt   time.Time // heardAt when the link check began to doubt it
	queriesLeft int       // that it may leave unanswered before the link fails
	answer      timer

	// What it last said of itself.
	links, random uint32
	peers         []peer.ID
	listedAt      time.Time

	promises
	eager  bool       // in the shared tree
	owed   []*message // to be announced to it alone
	failed bool       // it ended by itself
}

// roundTrip is smoothed as TCP does it (RFC 6298, section 2); the least one grows until one is shorter.
type roundTrip struct{ least, mean, spread time.Duration }

func updated(r *roundTrip, sample time.Duration) *roundTrip {
	if r == nil {
		return &roundTrip{sample, sample, sample / 2}
	}
	r.least = min(sample, r.least+r.least/16)
	r.spread += ((sample - r.mean).Abs() - r.spread) / 4
	r.mean += (sample - r.mean) / 8
	return r
}

// distance: the least of late counts, as a busy machine makes near neighbours look far.
func (l *link) distance() time.Duration {
	switch {
	case l.badPings >= maxBadPings:
		return math.MaxInt64
	case l.rtt == nil:
		return 0
	}
	return min(l.rtt.mean, l.rtt.least)
}

// rtt is the round trip to a neighbour; 0 while it isn't known.
func (t *Topic) rtt(id peer.ID) time.Duration {
	if l := t.link(id); l != nil && l.rtt != nil {
		return l.rtt.mean
	}
	return 0
}

func (t *Topic) link(id peer.ID) *link {
	for _, l := range t.links {
		if l.id == id {
			return l
		}
	}
	return nil
}

func (t *Topic) count(kind pb.Neighbor_Kind) int {
	found := 0
	for _, l := range t.links {
		if l.kind == kind {
			found++
		}
	}
	return found
}

func (t *Topic) isInNeed() bool   { return len(t.links) < randomLinks }
func (t *Topic) isFull() bool     { return len(t.links) >= activeSize }
func (t *Topic) isTooLarge() bool { return len(t.links) > activeSize }

// neighbors are the ids of the active view without those.
func (t *Topic) neighbors(but ...peer.ID) []peer.ID {
	found := []peer.ID{}
	for _, l := range t.links {
		if !slices.Contains(but, l.id) {
			found = append(found, l.id)
		}
	}
	return found
}

// pick is a random neighbour; "" if there is none.
func (t *Topic) pick(but ...peer.ID) peer.ID {
	for _, id := range t.sample(t.neighbors(but...), 1) {
		return id
	}
	return ""
}

// addLink makes a peer a neighbour; the caller has checked the bound, and calls linked once its
// ACCEPT, if there is to be one, has gone out: it precedes all that only a neighbour may send.
func (t *Topic) addLink(id peer.ID, kind pb.Neighbor_Kind, said *pb.Neighbor) {
	now := t.port.Now()
	l := &link{
		id: id, kind: kind, group: t.port.Group(id), since: now, rtt: t.passive.rtt(id),
		heardAt: now, listedAt: now, eager: true, promises: t.owing(id),
	}
	l.answer = timer{t: t, f: func() { t.onSilence(l) }}
	t.passive.remove(id)
	t.links = append(t.links, l)
	t.note(l, said)
}

// linked starts what a new link is for.
func (t *Topic) linked(id peer.ID) {
	t.port.Linked(t.neighbors())
	t.search.lost.take(id)
	t.refused.take(id)
	if request := t.requests[id]; request != nil {
		request.cancel()
		delete(t.requests, id)
		if contains(t.ringNeighbors(), id) { // it may know one that is between
			t.askForNodes(id, nodesBetween)
		}
		t.replaceFarther(t.link(id))
		if !t.isFull() {
			t.growing.hasten()
		}
	}
	if t.joining.walking && !t.isInNeed() {
		t.joining.finish()
	}
	if t.isTooLarge() && !t.stabilizing.isSet() {
		t.listsAsked = time.Time{}
		t.stabilizing.start()
	}
	t.linkBroadcast(t.link(id))
}

// kept are the links that no claim or nearness of another peer ends: those of rings, and the oldest other
// random ones up to C_rand. While a group has more than its share, all links of others.
func (t *Topic) kept() []peer.ID {
	found, groups := t.ringNeighbors(), map[string]int{}
	onRings, left := 0, []peer.ID{}
	for _, l := range t.links {
		groups[l.group]++
		switch {
		case l.kind != random:
		case contains(found, l.id):
			onRings++
		default:
			left = append(left, l.id)
		}
	}
	found = append(found, left[:min(len(left), max(0, randomLinks-onRings))]...)
	delete(groups, "")
	for _, count := range groups {
		if count > activeShare {
			for _, l := range t.links {
				if groups[l.group] <= activeShare {
					found = with(found, l.id)
				}
			}
			break
		}
	}
	return found
}

// makeRoom is whether a peer that asks for a link gets one: up to A, a little beyond where it is in need,
// and where it is next on a ring. At the hard bound, the newest link that is on no ring gives way.
func (t *Topic) makeRoom(id peer.ID, inNeed bool) bool {
	most := activeSize
	if inNeed {
		most += maxInNeed
	}
	if len(t.links) < most {
		return true
	}
	if !t.isNext(id) {
		return false
	}
	if len(t.links) >= activeBound {
		others := t.neighbors(t.ringNeighbors(id)...)
		if len(others) == 0 {
			return false
		}
		t.evict(others[len(others)-1])
	}
	return true
}

// note keeps what a neighbour said of itself. Where the ends disagree about the kind it is random.
func (t *Topic) note(l *link, said *pb.Neighbor) {
	if said == nil {
		return
	}
	l.heardAt = t.port.Now()
	l.links, l.random = said.GetLinks(), said.GetRandomLinks()
	if said.GetRole() != pb.Neighbor_REQUEST && said.GetKind() == random {
		l.kind = random
	}
	if said.GetRole() == pb.Neighbor_LIST {
		l.listedAt = t.port.Now()
		if !said.GetNumbersOnly() {
			l.peers = t.learn(said.Peers)
		}
	}
}

// dropLink ends a link; true if there was one.
func (t *Topic) dropLink(id peer.ID, notify, remember bool) bool {
	l := t.link(id)
	if l == nil {
		return false
	}
	t.links = slices.DeleteFunc(slices.Clone(t.links), func(other *link) bool { return other == l })
	l.answer.cancel()
	t.port.Linked(t.neighbors())
	if notify {
		t.port.Send(id, Disconnect(true))
	}
	if remember {
		t.passive.add(t, id, "", l.rtt)
	}
	t.unlinkBroadcast(l)
	t.release(id)
	return true
}

// evict gives up a link for a better one.
func (t *Topic) evict(id peer.ID) { t.dropLink(id, true, true) }

// release: nobody here needs the connection to a peer that is no neighbour.
func (t *Topic) release(id peer.ID) {
	if t.link(id) == nil {
		t.port.Release(id)
	}
}

// learn keeps what others say of peers, and returns their ids.
func (t *Topic) learn(infos []*pb.PeerInfo) []peer.ID {
	found := []peer.ID{}
	for _, info := range infos[:min(len(infos), maxPeers)] {
		if id, ok := t.port.Learn(info); ok && id != t.me {
			found = append(found, id)
		}
	}
	return found
}

func (t *Topic) infos(ids []peer.ID) []*pb.PeerInfo {
	found := []*pb.PeerInfo{}
	for _, id := range ids {
		found = append(found, t.port.Info(id))
	}
	return found
}

func contains(ids []peer.ID, id peer.ID) bool { return slices.Contains(ids, id) }

func without(ids []peer.ID, id peer.ID) []peer.ID {
	return slices.DeleteFunc(ids, func(other peer.ID) bool { return other == id })
}

func with(ids []peer.ID, id peer.ID) []peer.ID {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}
