package core

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func TestWhatAnOriginOffersComesWithItsNodes(t *testing.T) {
	n := newNetwork(t, 20)
	n.run(30 * time.Second)
	topic := n.nodes[0].topic
	origin := n.nodes[1].id
	topic.shuffle.answered.put(origin, answered{offered: 2, given: topic.passive.ids()})
	found := []peer.ID{"x", "y", "z"}
	topic.takeOffered(origin, found)
	if topic.passive.find("x") == nil || topic.passive.find("y") == nil || topic.passive.find("z") != nil {
		t.Error("as many as it offers")
	}
	topic.takeOffered(origin, found[2:])
	if topic.passive.find("z") != nil {
		t.Error("once")
	}
}

func TestWhatAJoinAwaitsIsNoOffer(t *testing.T) {
	n := newNetwork(t, 3)
	n.run(10 * time.Second)
	topic, origin := n.nodes[0].topic, n.nodes[1].id
	topic.shuffle.answered.put(origin, answered{offered: 1})
	topic.joining.asked.put(origin, n.now)
	topic.onNodes(origin, &pb.Nodes{})
	if topic.joining.asked.has(origin) || !topic.shuffle.answered.has(origin) {
		t.Error("the join's answer was taken for an offer")
	}
	topic.Down(origin)
	if topic.shuffle.answered.has(origin) {
		t.Error("an origin that is gone is waited for")
	}
}

func TestNumbersAloneLeaveTheLastListAsItWas(t *testing.T) {
	n := newNetwork(t, 3)
	n.run(10 * time.Second)
	topic := n.nodes[0].topic
	l := topic.links[0]
	l.peers = []peer.ID{"x"}
	role, kind := pb.Neighbor_LIST, l.kind
	topic.onNeighbor(l.id, &pb.Neighbor{
		Role: &role, Kind: &kind, Links: proto.Uint32(9), NumbersOnly: proto.Bool(true),
	})
	if l.links != 9 || len(l.peers) != 1 {
		t.Errorf("%d links, %d peers", l.links, len(l.peers))
	}
}
