package core

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func accepting() *pb.Neighbor {
	return &pb.Neighbor{
		Role: pb.Neighbor_ACCEPT.Enum(), Kind: pb.Neighbor_RANDOM.Enum(), Links: proto.Uint32(1),
	}
}

// notNext are so many peers that are next to a node on no ring.
func notNext(topic *Topic, count int) []peer.ID {
	found := []peer.ID{}
	for i := 100; len(found) < count; i++ {
		if !topic.isNext(someID(i)) {
			found = append(found, someID(i))
		}
	}
	return found
}

func TestAnAcceptCountsWhereItWasAskedFor(t *testing.T) {
	n, topic := alone(t, 0)
	topic.onNeighbor(someID(0), accepting())
	if topic.link(someID(0)) != nil {
		t.Error("nobody asked")
	}
	topic.requests[someID(1)] = &timer{t: topic}
	topic.onNeighbor(someID(1), accepting())
	if topic.link(someID(1)) == nil || len(topic.requests) > 0 {
		t.Error("it was asked by name")
	}
	topic.joining.openUntil = n.now.Add(joinLifetime)
	for i := 2; i < 10; i++ {
		topic.onNeighbor(someID(i), accepting())
	}
	if len(topic.links) != randomLinks {
		t.Errorf("a JOIN brought %d links", len(topic.links))
	}
	n.now = n.now.Add(joinLifetime)
	topic.dropLink(someID(2), false, false)
	topic.onNeighbor(someID(2), accepting())
	if topic.link(someID(2)) != nil {
		t.Error("too late")
	}
}

func TestAPeerThatRefusedIsLeftAloneForAWhile(t *testing.T) {
	n, topic := alone(t, randomLinks)
	n.start(1)
	other := n.nodes[1].id
	topic.request(other, near)
	topic.Received(other, Disconnect(true))
	if !topic.hasRefused(other) || topic.requests[other] != nil {
		t.Error("it has refused")
	}
	n.now = n.now.Add(refusedInNeed)
	if !topic.hasRefused(other) {
		t.Error("a node with enough links waits longer")
	}
	topic.dropLink(topic.links[0].id, false, false)
	if topic.hasRefused(other) {
		t.Error("one in need asks again")
	}
}

func TestAtTheBoundAPeerNextOnARingTakesTheNewestOtherLink(t *testing.T) {
	_, topic := alone(t, activeSize)
	for _, id := range notNext(topic, activeBound-activeSize) {
		topic.addLink(id, random, nil)
	}
	newest := topic.links[activeBound-1].id
	stranger := notNext(topic, activeBound)[activeBound-1]
	topic.onNeighbor(stranger, lacking())
	if topic.link(stranger) != nil || len(topic.links) != activeBound {
		t.Error("the view has no room")
	}
	next := peer.ID("")
	for i := 1000; next == ""; i++ {
		if topic.isNext(someID(i)) {
			next = someID(i)
		}
	}
	topic.onNeighbor(next, lacking())
	if topic.link(next) == nil || topic.link(newest) != nil || len(topic.links) != activeBound {
		t.Error("its place is its own")
	}
}

func TestTheOldestRandomLinksAndThoseOfRingsStay(t *testing.T) {
	_, topic := alone(t, activeBound)
	kept := topic.kept()
	for _, l := range topic.links {
		topic.spare(l)
	}
	for _, id := range kept {
		if topic.link(id) == nil {
			t.Error("a link that is kept was ended")
		}
	}
	if len(topic.links) != activeSize {
		t.Errorf("%d links", len(topic.links))
	}
}

func TestRoundsDoubleWhileNothingChanges(t *testing.T) {
	n, topic := alone(t, 0)
	at := []time.Duration{}
	began := n.now
	r := topic.rounds(time.Second, 4*time.Second, nil)
	r.f = func() {
		at = append(at, n.now.Sub(began))
		r.next()
	}
	r.start()
	n.run(20 * time.Second)
	ends := []time.Duration{1, 3, 7, 11, 15, 19}
	for i, end := range ends {
		end *= time.Second
		if length := time.Duration(min(4, 1<<i)) * time.Second; at[i] > end || at[i] < end-length/2 {
			t.Errorf("round %d at %s", i, at[i])
		}
	}
	if r.hasten(); r.interval != time.Second {
		t.Errorf("%s", r.interval)
	}
}
