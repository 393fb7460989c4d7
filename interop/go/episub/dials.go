package main

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// dialling is what waits for one dial.
type dialling struct {
	waiting   []func(up bool)
	forOthers bool // whether only messages of other nodes asked for it
}

// dial connects to a peer and calls f once, after the task that is under way.
func (n *node) dial(id peer.ID, f func(up bool)) { n.connectTo(id, false, f) }

// dialForOthers is dial on the word of another node, for which part of the table is kept.
func (n *node) dialForOthers(id peer.ID, f func(up bool)) { n.connectTo(id, true, f) }

func (n *node) connectTo(id peer.ID, forOthers bool, f func(up bool)) {
	other := n.remote(id)
	other.usedAt = time.Now()
	if n.writable(id) {
		n.soon = append(n.soon, func() { f(n.writable(id)) })
		return
	}
	d := n.dials[id]
	if d != nil {
		d.waiting = append(d.waiting, f)
		d.forOthers = d.forOthers && forOthers
		return
	}
	if n.faults.blocked[id] || len(n.dials) >= maxDials || (forOthers && n.dialsForOthers() >= maxForOthers) {
		n.soon = append(n.soon, func() { f(false) })
		return
	}
	d = &dialling{[]func(bool){f}, forOthers}
	n.dials[id] = d
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
		defer cancel()
		err := n.host.Connect(ctx, n.host.Peerstore().PeerInfo(id))
		n.do(func() {
			if err != nil {
				n.dialled(id, false)
			} else {
				other.ours = true
			}
		})
	}()
	// Connected, it waits for our stream.
	n.later(dialTimeout+streamTimeout, func() {
		if n.dials[id] == d {
			n.dialled(id, n.writable(id))
		}
	})
}

func (n *node) dialsForOthers() int {
	count := 0
	for _, d := range n.dials {
		if d.forOthers {
			count++
		}
	}
	return count
}

func (n *node) dialled(id peer.ID, up bool) {
	d := n.dials[id]
	delete(n.dials, id)
	if d == nil {
		return
	}
	for _, f := range d.waiting {
		f(up)
	}
}

// release: a topic has no use for the connection to a peer. If we made it, it is closed after a while in
// which no topic used it.
func (n *node) release(id peer.ID) {
	other := n.remotes[id]
	if other == nil || !other.ours || other.releasing {
		return
	}
	other.releasing = true
	n.later(releaseGrace, func() {
		other.releasing = false
		used := time.Since(other.usedAt) < releaseGrace
		for _, ids := range n.neighbors {
			used = used || slices.Contains(ids, id)
		}
		if !used && other.connected {
			go func() { _ = n.host.Network().ClosePeer(id) }()
		}
	})
}
