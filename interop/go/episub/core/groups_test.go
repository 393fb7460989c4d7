package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func someID(i int) peer.ID { return peer.ID(fmt.Sprintf("peer %d", i)) }

// alone is a node with so many links that say they have the numbers of links that they aim at.
func alone(t *testing.T, links int) (*network, *Topic) {
	n := newNetwork(t, 1)
	topic := n.nodes[0].topic
	for i := range links {
		topic.addLink(someID(i), pb.Neighbor_RANDOM, &pb.Neighbor{
			Links: proto.Uint32(activeSize), RandomLinks: proto.Uint32(randomLinks),
		})
	}
	return n, topic
}

func lacking() *pb.Neighbor {
	return &pb.Neighbor{
		Role: pb.Neighbor_REQUEST.Enum(), Kind: pb.Neighbor_RANDOM.Enum(), Links: proto.Uint32(1),
	}
}

func TestAGroupHasItsShareOfThePassiveView(t *testing.T) {
	n, topic := alone(t, 0)
	for i := range 100 {
		topic.passive.add(topic, someID(i), someID(1000+i%50), 0)
	}
	for i := 100; i < 200; i++ { // one group, and each named by another peer
		n.groups[someID(i)] = "a"
		topic.passive.add(topic, someID(i), someID(1000+i), 0)
	}
	if found := topic.passive.inGroup("a"); found != passiveShare {
		t.Errorf("%d of the group", found)
	}
	for i := 200; i < 300; i++ { // of no group, but named by peers of one
		n.groups[someID(2000+i)] = "b"
		topic.passive.exchange(topic, []peer.ID{someID(i)}, someID(2000+i), nil)
	}
	if found := topic.passive.fromSource("b"); found != passiveShare {
		t.Errorf("%d that the group named", found)
	}
	if len(topic.passive) != passiveSize {
		t.Errorf("%d in all", len(topic.passive))
	}
}

func TestAnExchangeTakesThePlaceOfWhatWasGiven(t *testing.T) {
	_, topic := alone(t, 0)
	for i := range passiveSize {
		topic.passive.add(topic, someID(i), someID(1000+i), 0)
	}
	given, incoming := []peer.ID{someID(3), someID(4)}, []peer.ID{someID(100), someID(101)}
	topic.passive.exchange(topic, incoming, someID(2000), given)
	for i, id := range incoming {
		if topic.passive.find(id) == nil || topic.passive.find(given[i]) != nil {
			t.Errorf("%s", id)
		}
	}
}

func TestBeyondAOneOfEachGroupGetsALink(t *testing.T) {
	n, topic := alone(t, activeSize)
	for i, group := range []string{"a", "a", "b", "c"} {
		n.groups[someID(100+i)] = group
		topic.onNeighbor(someID(100+i), lacking())
	}
	n.run(time.Second) // round trips of those that were not taken in
	for i, expected := range []bool{true, false, true, false} {
		if linked := topic.link(someID(100+i)) != nil; linked != expected {
			t.Errorf("%d is linked: %t", i, linked)
		}
	}
}

func TestNeedIsBelievedForAMinute(t *testing.T) {
	n, topic := alone(t, activeSize)
	liar := someID(100)
	topic.onNeighbor(liar, lacking())
	topic.addLink(someID(101), pb.Neighbor_NEAR, lacking())
	shrink := func() {
		for _, l := range topic.links {
			l.listedAt = n.now
		}
		topic.shrink(n.now.Add(-time.Nanosecond))
	}
	n.now = n.now.Add(needBelieved - time.Second)
	if shrink(); topic.link(liar) == nil {
		t.Fatal("it ended too early")
	}
	topic.link(liar).rtt = time.Second
	if topic.farther(time.Millisecond) != nil {
		t.Error("nothing is nearer than what a peer needs")
	}
	n.now = n.now.Add(time.Second)
	if farther := topic.farther(time.Millisecond); farther == nil || farther.id != liar {
		t.Error("nearness ends it after a minute")
	}
	if shrink(); topic.link(liar) != nil {
		t.Error("it stays for ever")
	}
}

func TestContactsOfAsManyGroupsAreAsked(t *testing.T) {
	n, topic := alone(t, 0)
	contacts := []peer.ID{}
	for i := range 20 {
		contacts = append(contacts, someID(i))
		n.groups[someID(i)] = []string{"a", "b", "c"}[min(i, 2)]
	}
	for range 20 {
		chosen := topic.disjoint(contacts, contactsAsked)
		if !slices.Contains(chosen, contacts[0]) || !slices.Contains(chosen, contacts[1]) || len(chosen) != 3 {
			t.Fatalf("%v", chosen)
		}
	}
}
