package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	firstWait = 20 * time.Millisecond
	leastWait = 10 * time.Millisecond
	mostWait  = time.Second
	firstLag  = 20 * time.Millisecond
	mostLag   = 500 * time.Millisecond
	lagMargin = 5 * time.Millisecond
)

// waits say how long an announced message may stay away before it is asked for. Both kinds are
// learned: of announcements by standbys, how much later the message comes by itself; of all others,
// whether waiting would have brought it.
type waits struct {
	wait time.Duration
	lags map[peer.ID]time.Duration // of standbys
}

func (w *waits) standby(id peer.ID) {
	if _, known := w.lags[id]; !known {
		w.lags[id] = firstLag
	}
}

func (w *waits) after(id peer.ID) time.Duration {
	if lag, standby := w.lags[id]; standby {
		return lag*6/5 + lagMargin
	}
	return w.wait
}

// alreadyKnown: a peer announced a message that is here.
func (w *waits) alreadyKnown(id peer.ID) {
	if lag, standby := w.lags[id]; standby {
		w.lags[id] = lag * 19 / 20
	}
}

// firstCopy: a message came that perhaps was missing.
func (w *waits) firstCopy(from peer.ID, missing *announced, now time.Time) {
	if missing == nil {
		return
	}
	if slices.Contains(missing.asked, from) {
		w.wait = max(leastWait, w.wait*4/5)
		return
	}
	late, first := now.Sub(missing.at), missing.by[0].id
	if lag, standby := w.lags[first]; standby {
		if late > lag {
			w.lags[first] = min(mostLag, lag+(late-lag)/4)
		} else {
			w.lags[first] = max(late, lag*19/20)
		}
	}
	if len(missing.asked) > 0 && w.wait < late && late <= 2*w.wait+firstWait {
		w.wait = min(mostWait, late*5/4)
	}
}
