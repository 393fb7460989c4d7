package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// growth asks passive peers for links while the active view is too small.
type growth struct {
	asked   map[peer.ID]time.Time // NEIGHBOR requests in flight; zero while the dial is
	refused map[peer.ID]time.Time // when it refused; it isn't asked again for a while
	stretch int
	full    bool // whether the view has ever been
	round   int
}

func (g *growth) linked(id peer.ID) {
	delete(g.asked, id)
	delete(g.refused, id)
}

func (g *growth) backOff(id peer.ID, now time.Time) {
	if len(g.refused) >= maxRefused {
		clear(g.refused)
	}
	g.refused[id] = now
}

// kindMissing is what the next link is to be for.
func (t *Topic) kindMissing() pb.Neighbor_Kind {
	if t.count(pb.Neighbor_RANDOM) >= randomLinks {
		return pb.Neighbor_NEAR
	}
	return pb.Neighbor_RANDOM
}

// grow asks as many passive peers as links, or random links, are missing.
func (t *Topic) grow() {
	g, now := &t.growth, t.port.Now()
	missing := max(activeSize-len(t.links), randomLinks-t.count(pb.Neighbor_RANDOM)) - len(g.asked)
	if missing <= 0 {
		return
	}
	wait := refusedBackoff
	if len(t.links) < randomLinks {
		wait = refusedInNeed
	}
	candidates := slices.DeleteFunc(t.sample(t.passive.ids(), passiveSize), func(id peer.ID) bool {
		_, asked := g.asked[id]
		at, refused := g.refused[id]
		return asked || refused && now.Sub(at) < wait
	})
	if t.kindMissing() == pb.Neighbor_NEAR {
		slices.SortStableFunc(candidates, func(a, b peer.ID) int {
			return cmp.Compare(known(t.passive.rtt(a)), known(t.passive.rtt(b)))
		})
	}
	for _, id := range candidates[:min(missing, len(candidates))] {
		g.asked[id] = time.Time{}
		t.port.Dial(id, func(up bool) { t.request(id, up) })
	}
}

// known puts round trips that were not measured last.
func known(rtt time.Duration) time.Duration {
	if rtt == 0 {
		return time.Hour
	}
	return rtt
}

func (t *Topic) request(id peer.ID, up bool) {
	g := &t.growth
	if _, waiting := g.asked[id]; !waiting || t.left {
		return
	}
	if !up || t.link(id) != nil {
		delete(g.asked, id)
		if !up {
			t.passive.remove(id)
			t.askOthers()
		}
		return
	}
	at := t.port.Now()
	g.asked[id] = at
	t.askForLink(id, t.kindMissing())
	t.after(requestTimeout, func() {
		if g.asked[id] == at {
			t.refusedBy(id)
		}
	})
}

// refusedBy: DISCONNECT to a request of ours, or no answer in time.
func (t *Topic) refusedBy(id peer.ID) {
	g := &t.growth
	if _, asked := g.asked[id]; !asked {
		return
	}
	delete(g.asked, id)
	g.backOff(id, t.port.Now())
	t.askOthers()
}

// askOthers asks the next at once while the random links are missing.
func (t *Topic) askOthers() {
	if len(t.links) < randomLinks {
		t.grow()
	}
	t.join()
}

// replaceLinks is called when links are gone.
func (t *Topic) replaceLinks() {
	t.growth.stretch = 1
	t.grow()
	t.scheduleGrowth()
	t.probe.fruitless = 0
	t.join()
}

// scheduleGrowth looks at the view again after a while that grows while nothing is found.
func (t *Topic) scheduleGrowth() {
	g := &t.growth
	g.full = g.full || len(t.links) >= activeSize
	period := growInterval
	if !g.full {
		period = joinGrow
	}
	most := 2
	if len(t.links)+1 >= activeSize {
		most = maxStretch
	}
	if len(t.links) < randomLinks {
		g.stretch = 1
	} else {
		g.stretch = min(2*g.stretch, int(time.Duration(most)*growInterval/period))
	}
	g.round++
	round := g.round
	t.after(t.jittered(time.Duration(g.stretch)*period), func() {
		if g.round == round {
			t.grow()
			t.scheduleGrowth()
			t.join()
		}
	})
}
