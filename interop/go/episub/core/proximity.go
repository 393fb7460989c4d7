package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// optimizing replaces far neighbours by near passive peers.
type optimizing struct {
	candidate peer.ID // that was asked in this period
	victim    peer.ID // that it is to replace
}

// measured smooths round trips as TCP does, with a gain of an eighth.
func measured(before, sample time.Duration) time.Duration {
	if before == 0 {
		return sample
	}
	return before + (sample-before)/8
}

// farther is the farthest neighbour that a peer so near may replace.
func (t *Topic) farther(rtt time.Duration) *link {
	if rtt <= 0 {
		return nil
	}
	var found *link
	spare := t.count(pb.Neighbor_RANDOM) > randomLinks
	for _, l := range t.links {
		can := l.random >= randomLinks
		if l.kind == pb.Neighbor_RANDOM {
			can = l.random > randomLinks
		}
		can = (can && l.links >= activeSize) || t.hadTime(l)
		far := l.rtt > rttAdvantage*rtt && l.rtt-rtt >= rttMinGain
		can = can && (spare || l.kind == pb.Neighbor_NEAR) && !slices.Contains(t.proved(), l)
		if can && far && (found == nil || l.rtt > found.rtt) {
			found = l
		}
	}
	return found
}

// optimize pings some neighbours, and asks the nearest passive peer to replace a far one.
func (t *Topic) optimize() {
	t.nearer = optimizing{}
	unmeasured := []peer.ID{}
	for _, l := range t.links {
		if l.rtt == 0 {
			unmeasured = append(unmeasured, l.id)
		}
	}
	chosen := t.sample(unmeasured, 3)
	if len(chosen) == 0 {
		chosen = t.sample(t.neighbors(), 1)
	}
	for _, id := range chosen {
		t.measure(id)
	}
	nearest := passivePeer{}
	for _, entry := range t.passive {
		if entry.measured > 0 && (nearest.id == "" || entry.measured < nearest.measured) {
			nearest = entry
		}
	}
	victim := t.farther(nearest.measured)
	if victim == nil || len(t.links) < activeSize {
		return
	}
	t.nearer = optimizing{candidate: nearest.id, victim: victim.id}
	t.port.Dial(nearest.id, func(up bool) {
		if up && !t.left && t.nearer.candidate == nearest.id {
			t.askForLink(nearest.id, pb.Neighbor_NEAR)
		}
	})
}

// measure pings a peer and keeps its round trip.
func (t *Topic) measure(id peer.ID) {
	t.port.Ping(id, func(rtt time.Duration) {
		if l := t.link(id); l != nil {
			if rtt > 0 {
				l.rtt, l.badPings = measured(l.rtt, rtt), 0
			} else if l.badPings++; l.badPings >= 3 {
				l.rtt = time.Hour
			}
		} else if entry := t.passive.find(id); entry != nil {
			if rtt > 0 {
				entry.measured, entry.badPings = measured(entry.measured, rtt), 0
			} else if entry.badPings++; entry.badPings >= 3 {
				t.passive.remove(id)
			}
		}
	})
}

// linked: if it is the one that was asked, it takes the place of the far neighbour.
func (o *optimizing) linked(t *Topic, id peer.ID) {
	if o.candidate != id {
		return
	}
	victim := t.link(o.victim)
	t.nearer = optimizing{}
	if victim == nil || len(t.links) <= activeSize || slices.Contains(t.proved(), victim) {
		return
	}
	if victim.kind == pb.Neighbor_NEAR || t.count(pb.Neighbor_RANDOM) > randomLinks {
		t.dropLink(victim.id, true, true)
		t.probe.found = true
	}
}

func (o *optimizing) refused(t *Topic, id peer.ID) {
	if o.candidate == id {
		if entry := t.passive.find(id); entry != nil {
			entry.measured = 0
		}
		t.nearer = optimizing{}
	}
}
