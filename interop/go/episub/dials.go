package main

import (
	"context"

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
		if n.host.Connect(ctx, n.host.Peerstore().PeerInfo(id)) != nil {
			n.do(func() { n.dialled(id, false) })
		}
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
