package core

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

func TestAJoinHasOneAnswer(t *testing.T) {
	now := time.Unix(1000, 0)
	var open openJoins
	if open.take(now) {
		t.Error("without a JOIN")
	}
	open.add(now)
	if !open.take(now) || open.take(now) {
		t.Error("one answer")
	}
	open.add(now)
	if open.take(now.Add(joinLifetime)) {
		t.Error("too late")
	}
	for range 3 * maxOpen {
		open.add(now)
	}
	if len(open) > maxOpen {
		t.Errorf("%d are remembered", len(open))
	}
}

func TestARequestIsAnsweredByThePeerThatWasAsked(t *testing.T) {
	now := time.Unix(1000, 0)
	open := openRequests{}
	a, b := peer.ID("a"), peer.ID("b")
	open.open(a, now)
	if open.take(b, now) {
		t.Error("another peer")
	}
	if !open.take(a, now) || open.take(a, now) {
		t.Error("one answer")
	}
	open.open(b, now)
	if open.take(b, now.Add(requestLifetime)) {
		t.Error("too late")
	}
}

func TestTheRandomLinksThatStoodLongestStay(t *testing.T) {
	n := newNetwork(t, 20)
	n.run(30 * time.Second)
	topic := n.nodes[0].topic
	for _, node := range n.nodes[1:] {
		if topic.link(node.id) == nil {
			topic.addLink(node.id, pb.Neighbor_RANDOM, nil)
		}
	}
	for _, l := range topic.proved() {
		topic.spare(l)
		if topic.link(l.id) == nil {
			t.Error("it was ended")
		}
	}
	last := topic.links[len(topic.links)-1]
	if topic.spare(last); topic.link(last.id) != nil {
		t.Error("the last one can be spared")
	}
}
