package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Proximity: far neighbours are replaced by near passive peers, which are asked whether they are there, in
// the topic, and how far away.

// farther is the farthest neighbour that a peer so near may replace.
func (t *Topic) farther(rtt time.Duration) *link {
	if rtt <= 0 {
		return nil
	}
	kept, most := t.kept(), rttAdvantage*rtt
	var found *link
	for _, l := range t.links {
		least, distance := uint32(randomLinks), l.distance()
		if l.kind == random {
			least++
		}
		if distance > most && distance-rtt >= rttMinGain && l.random >= least &&
			l.links >= activeSize && !contains(kept, l.id) {
			found, most = l, distance
		}
	}
	return found
}

// probeRound pings some neighbours, asks the nearest passive peer to replace a far one, and others
// whether they are there.
func (t *Topic) probeRound() {
	first := t.isFirstProbe()
	if t.foundNew || first {
		t.probes.start()
	} else {
		t.probes.next()
	}
	t.foundNew = false
	for id, answered := range t.probed {
		if !answered {
			t.passive.remove(id)
		}
	}
	clear(t.probed)
	t.measureSome()
	t.askNearer()
	if first || t.allNear() {
		return
	}
	for _, id := range t.toProbe() {
		t.dial(id, func(up bool) {
			if _, asked := t.probed[id]; up && !asked {
				t.probed[id] = false
				t.port.Send(id, controlGetTopics())
			}
		})
	}
}

// isFirstProbe is whether no neighbour was pinged yet: all may be near.
func (t *Topic) isFirstProbe() bool {
	return len(t.links) > 0 && !slices.ContainsFunc(t.links, func(l *link) bool {
		return l.rtt != nil || l.badPings > 0
	})
}

// allNear is whether all measured neighbours are so near, as on a LAN, that no peer could be nearer by what
// counts.
func (t *Topic) allNear() bool {
	measured := false
	for _, l := range t.links {
		if l.rtt != nil && l.rtt.least > rttAdvantage*rttMinGain {
			return false
		}
		measured = measured || l.rtt != nil
	}
	return measured
}

func (t *Topic) measureSome() {
	unmeasured := []peer.ID{}
	for _, l := range t.links {
		if l.rtt == nil {
			unmeasured = append(unmeasured, l.id)
		}
	}
	chosen := t.sample(unmeasured, measuredFirst)
	if len(chosen) == 0 {
		chosen = t.sample(t.neighbors(), 1)
	}
	for _, id := range chosen {
		t.measure(id)
	}
}

func (t *Topic) askNearer() {
	measured := slices.DeleteFunc(slices.Clone(t.passive), func(entry passivePeer) bool {
		return entry.measured == nil
	})
	slices.SortStableFunc(measured, func(a, b passivePeer) int {
		return int(a.measured.mean - b.measured.mean)
	})
	for _, entry := range measured {
		if !t.isFull() || t.farther(entry.measured.mean) == nil {
			return
		}
		if !t.hasRefused(entry.id) {
			t.request(entry.id, near)
			return
		}
	}
}

// replaceFarther: a peer that was asked has accepted; a farther neighbour goes, if there are too many.
func (t *Topic) replaceFarther(l *link) {
	if l.rtt == nil || !t.isTooLarge() {
		return
	}
	if farther := t.farther(l.rtt.mean); farther != nil {
		t.evict(farther.id)
		t.probes.hasten()
	}
}

// toProbe are peers never measured: neighbours of near neighbours, which are likely near, then any.
// A near neighbour whose list isn't known is asked for it.
func (t *Topic) toProbe() []peer.ID {
	namedBy, named, unlisted := map[peer.ID]peer.ID{}, []peer.ID{}, []*link{}
	for _, l := range t.links {
		if l.kind != near {
			continue
		}
		if len(l.peers) == 0 {
			unlisted = append(unlisted, l)
		}
		for _, id := range l.peers {
			if t.link(id) == nil && t.passive.rtt(id) == nil {
				namedBy[id] = l.id
				named = with(named, id)
			}
		}
	}
	if len(unlisted) > 0 {
		t.query(unlisted[0], false)
	}
	chosen := t.sample(named, (probePeers+1)/2)
	for _, id := range chosen {
		t.passive.add(t, id, namedBy[id], nil)
	}
	unmeasured := slices.DeleteFunc(t.passive.ids(chosen...), func(id peer.ID) bool {
		return t.passive.rtt(id) != nil
	})
	return append(chosen, t.sample(unmeasured, probePeers-len(chosen))...)
}

func (t *Topic) onTopics(from peer.ID, message *pb.Topics) {
	if !slices.Contains(message.Topics, t.name) {
		t.passive.remove(from)
		t.release(from)
	} else if _, asked := t.probed[from]; asked {
		t.probed[from] = true
		t.measure(from)
	}
}

// measure pings a peer and keeps its round trip; 0 is none.
func (t *Topic) measure(id peer.ID) {
	t.port.Ping(id, func(rtt time.Duration) {
		if t.left {
			return
		}
		entry := t.passive.find(id)
		if t.probed[id] {
			if rtt > 0 && (entry == nil || entry.measured == nil) {
				t.found++
				t.foundNew = t.foundNew || t.found <= probedEagerly
			}
			delete(t.probed, id)
			t.release(id)
		}
		switch l := t.link(id); {
		case l != nil && rtt > 0:
			l.rtt, l.badPings = updated(l.rtt, rtt), 0
		case l != nil:
			if l.badPings++; l.badPings >= maxBadPings {
				l.rtt = nil
			}
		case entry != nil && rtt > 0:
			entry.measured = updated(entry.measured, rtt)
		case entry != nil:
			entry.measured = nil
		}
		t.onRequestMeasured(id, rtt)
	})
}
