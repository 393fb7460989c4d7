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
	trees     bool // takes part in trees of single sources
	since     time.Time
	heardAt   time.Time // when something came last
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
func (t *Topic) addLink(id peer.ID, kind pb.Neighbor_Kind, features uint32, said *pb.Neighbor) {
	now := t.port.Now()
	l := &link{
		id: id, kind: kind, trees: features&sourceTrees != 0, since: now, heardAt: now,
		rtt: t.passive.rtt(id), eager: true, listedAt: now,
	}
	t.passive.remove(id)
	t.links = append(t.links, l)
	t.note(l, said)
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
		l.peers, l.listedAt = t.learn(said.Peers), t.port.Now()
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

// passiveView is an entry each of the peers believed to be in the overlay.
type passiveView []passivePeer

type passivePeer struct {
	id       peer.ID
	source   peer.ID // that named it; "" if it is known otherwise
	measured time.Duration
	badPings int
}

func (v passiveView) find(id peer.ID) *passivePeer {
	for i := range v {
		if v[i].id == id {
			return &v[i]
		}
	}
	return nil
}

func (v passiveView) rtt(id peer.ID) time.Duration {
	if found := v.find(id); found != nil {
		return found.measured
	}
	return 0
}

func (v passiveView) ids(but ...peer.ID) []peer.ID {
	found := []peer.ID{}
	for _, entry := range v {
		if !slices.Contains(but, entry.id) {
			found = append(found, entry.id)
		}
	}
	return found
}

func (v *passiveView) remove(id peer.ID) bool {
	before := len(*v)
	*v = slices.DeleteFunc(*v, func(entry passivePeer) bool { return entry.id == id })
	return len(*v) < before
}

// add remembers a peer. In a full view it takes the place of another one: of one that the same
// peer named, if that has its share.
func (v *passiveView) add(t *Topic, id, source peer.ID, rtt time.Duration, spare ...peer.ID) {
	if id == t.me || t.link(id) != nil || v.find(id) != nil {
		return
	}
	if len(*v) >= passiveSize {
		same := []peer.ID{}
		for _, entry := range *v {
			if source != "" && entry.source == source {
				same = append(same, entry.id)
			}
		}
		victims := v.ids()
		if len(same) >= passiveShare {
			victims = same
		} else if given := slices.DeleteFunc(slices.Clone(spare), func(id peer.ID) bool { return v.find(id) == nil }); len(given) > 0 {
			victims = given
		}
		v.remove(t.sample(victims, 1)[0])
	}
	*v = append(*v, passivePeer{id: id, source: source, measured: rtt})
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
