package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

func TestAJoinHasOneAnswer(t *testing.T) {
	now := time.Unix(1000, 0)
	var open openJoins
	rng := rand.New(rand.NewPCG(1, 0))
	first, second := open.draw(rng, now), open.draw(rng, now)
	if !open.take(second, now) || open.take(second, now) {
		t.Error("one answer, by its nonce")
	}
	if !open.take(0, now) || open.take(first, now) {
		t.Error("without a nonce it answers the oldest")
	}
	late := open.draw(rng, now)
	if open.take(late, now.Add(joinLifetime)) {
		t.Error("too late")
	}
	for range 3 * maxOpen {
		open.draw(rng, now)
	}
	if len(open) > maxOpen {
		t.Errorf("%d are remembered", len(open))
	}
}

func TestARequestIsAnsweredByThePeerThatWasAsked(t *testing.T) {
	now := time.Unix(1000, 0)
	open := openRequests{}
	a, b := peer.ID("a"), peer.ID("b")
	old := open.open(a, now)
	nonce := open.open(a, now)
	if open.take(b, nonce, now) || open.take(a, old, now) {
		t.Error("another peer, or an older request")
	}
	if !open.take(a, nonce, now) || open.take(a, nonce, now) {
		t.Error("one answer")
	}
	open.open(b, now)
	if open.take(b, 0, now.Add(requestLifetime)) {
		t.Error("too late")
	}
}

func TestTheRandomLinksThatStoodLongestStay(t *testing.T) {
	n := newNetwork(t, 20)
	n.run(30 * time.Second)
	topic := n.nodes[0].topic
	for _, node := range n.nodes[1:] {
		if topic.link(node.id) == nil {
			topic.addLink(node.id, pb.Neighbor_RANDOM, sourceTrees, nil)
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
