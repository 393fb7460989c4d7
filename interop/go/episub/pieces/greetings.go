package pieces

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	greetAgain = 5 * time.Second // until a neighbour that hasn't answered is greeted again; doubles
	greetTries = 4               // after the first; one that answers none takes no pieces
)

// greeting is what a neighbour was sent to say that we take pieces. It, or the answer, can be lost
// where two connections replace each other.
type greeting struct {
	since, last, again time.Time // again is zero where no answer is waited for
	tries              int
}

// greetings has one for each neighbour.
type greetings map[peer.ID]*greeting

func (g greetings) greeted(id peer.ID, now time.Time, waiting bool) {
	if g[id] == nil {
		g[id] = &greeting{since: now}
	}
	g[id].last = now
	if waiting {
		g[id].again, g[id].tries = now.Add(greetAgain), 0
	}
}

// answered: a neighbour takes pieces. since is when it was first greeted; false if it never was.
func (g greetings) answered(id peer.ID) (since time.Time, greeted bool) {
	if g[id] == nil {
		return since, false
	}
	g[id].again = time.Time{}
	return g[id].since, true
}

// mayAnswer tells whether the greeting of a neighbour that has greeted us before is answered: two that
// answer each other must come to an end.
func (g greetings) mayAnswer(id peer.ID, now time.Time) bool {
	return g[id] != nil && now.Sub(g[id].last) >= greetAgain/2
}

// due are the neighbours to greet again.
func (g greetings) due(now time.Time) (ids []peer.ID) {
	for id, to := range g {
		if to.again.IsZero() || to.again.After(now) {
			continue
		}
		ids = append(ids, id)
		to.tries++
		to.last, to.again = now, time.Time{}
		if to.tries < greetTries {
			to.again = now.Add(greetAgain << to.tries)
		}
	}
	return ids
}
