package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// link is an entry of the active view.
type link struct {
	id        peer.ID
	kind      pb.Neighbor_Kind
	since     time.Time
	onWish    bool      // beyond A, because it asked for that
	wishOf    string    // its group, if so
	heardAt   time.Time // when something came last
	queriedAt time.Time // when the link check queried it last; zero if it never did
	suspectAt time.Time // when it was queried out of turn; zero if it wasn't
	rtt       time.Duration
	badPings  int

	// What it last said of itself.
	links, random uint32
	peers         []peer.ID
	listedAt      time.Time

	// In the default tree.
	eager     bool
	parent    bool // brought a first copy
	lateSince time.Time
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
		id: id, kind: kind, since: now, heardAt: now,
		rtt: t.passive.rtt(id), eager: true, listedAt: now,
	}
	t.passive.remove(id)
	t.links = append(t.links, l)
	t.note(l, said)
}

// roomForWish is whether a peer that asks for a link may get one: beyond A few do, and one of each
// group.
func (t *Topic) roomForWish(id peer.ID) bool {
	if len(t.links) < activeSize {
		return true
	}
	group := t.port.Group(id)
	return len(t.links) < wishBound && (group == "" ||
		!slices.ContainsFunc(t.links, func(l *link) bool { return l.onWish && l.wishOf == group }))
}

// addOnWish is addLink for a peer that asked for the link.
func (t *Topic) addOnWish(id peer.ID, kind pb.Neighbor_Kind, said *pb.Neighbor) {
	beyond := len(t.links) >= activeSize
	t.addLink(id, kind, said)
	if l := t.link(id); beyond {
		l.onWish, l.wishOf = true, t.port.Group(id)
	}
}

// hadTime is whether a neighbour that was taken in beyond A has had time to find others: what it says
// of its need counts no more.
func (t *Topic) hadTime(l *link) bool {
	return l.onWish && t.port.Now().Sub(l.since) >= needBelieved
}

// linked starts what a new link is for.
func (t *Topic) linked(id peer.ID) {
	l := t.link(id)
	t.growth.linked(id)
	delete(t.lost.tries, id)
	t.nearer.linked(t, id)
	t.port.Linked(t.neighbors())
	t.announceRecent(l)
	t.offerTrees(l)
	t.pieces.Up(id)
	t.joined()
}

// proved are the random links that have stood longest, half of those that a node needs: they end by
// failure alone.
func (t *Topic) proved() []*link {
	found := []*link{}
	for _, l := range t.links {
		if l.kind == pb.Neighbor_RANDOM && len(found) < (randomLinks+1)/2 {
			found = append(found, l)
		}
	}
	return found
}

// note keeps what a neighbour said of itself. Where the ends disagree about the kind it is random.
func (t *Topic) note(l *link, said *pb.Neighbor) {
	if said == nil {
		return
	}
	l.links, l.random = said.GetLinks(), said.GetRandomLinks()
	if said.GetRole() != pb.Neighbor_REQUEST && said.GetKind() == pb.Neighbor_RANDOM {
		l.kind = pb.Neighbor_RANDOM
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
	t.links = slices.DeleteFunc(t.links, func(other *link) bool { return other == l })
	t.port.Linked(t.neighbors())
	if notify {
		t.port.Send(id, Disconnect(true))
	}
	if remember {
		t.passive.add(t, id, "", l.rtt)
	}
	t.unlinkBroadcast(l)
	return true
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
