package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// probe asks passive peers whether they are there, in the topic, and how far away.
type probe struct {
	asked     map[peer.ID]bool // and whether it has answered
	fruitless int              // periods without a nearer neighbour
	found     bool
}

func (t *Topic) probePeriod() time.Duration {
	stretch := min(1<<(t.probe.fruitless/probePatience), maxStretch)
	return t.jittered(time.Duration(stretch) * probeInterval)
}

func (t *Topic) probePassive() {
	p := &t.probe
	for id, answered := range p.asked {
		delete(p.asked, id)
		if !answered {
			t.passive.remove(id)
		}
	}
	p.fruitless++
	if p.found {
		p.fruitless, p.found = 0, false
	}
	unmeasured := []peer.ID{}
	for _, entry := range t.passive {
		if entry.measured == 0 {
			unmeasured = append(unmeasured, entry.id)
		}
	}
	if len(unmeasured) == 0 {
		unmeasured = t.passive.ids()
	}
	for _, id := range t.sample(unmeasured, probePeers) {
		t.port.Dial(id, func(up bool) {
			if up && !t.left {
				p.asked[id] = false
				t.port.Send(id, controlGetTopics())
			} else if !up {
				t.passive.remove(id)
			}
		})
	}
	near := []peer.ID{}
	for _, l := range t.links {
		if l.kind == pb.Neighbor_NEAR {
			near = append(near, l.id)
		}
	}
	for _, id := range t.sample(near, 1) {
		t.say(id, pb.Neighbor_QUERY, pb.Neighbor_NEAR)
	}
}

func (t *Topic) onTopics(from peer.ID, message *pb.Topics) {
	if !slices.Contains(message.Topics, t.name) {
		t.passive.remove(from)
		delete(t.probe.asked, from)
	} else if _, asked := t.probe.asked[from]; asked {
		t.probe.asked[from] = true
		t.measure(from)
	}
}
