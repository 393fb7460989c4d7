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
		topic.passive.add(topic, someID(i), someID(1000+i%50), nil)
	}
	for i := 100; i < 200; i++ { // one group, and each named by another peer
		n.groups[someID(i)] = "a"
		topic.passive.add(topic, someID(i), someID(1000+i), nil)
	}
	if found := labelled(topic, "a"); found != passiveShare {
		t.Errorf("%d of the group", found)
	}
	for i := 200; i < 300; i++ { // of no group, but named by peers of one
		n.groups[someID(2000+i)] = "b"
		topic.passive.exchange(topic, []peer.ID{someID(i)}, someID(2000+i), nil)
	}
	if found := labelled(topic, "b"); found != passiveShare {
		t.Errorf("%d that the group named", found)
	}
	if len(topic.passive) != passiveSize {
		t.Errorf("%d in all", len(topic.passive))
	}
}

// labelled are the passive peers of a group, or that it named.
func labelled(topic *Topic, label string) int {
	found := 0
	for _, entry := range topic.passive {
		if slices.Contains(entry.labels, label) {
			found++
		}
	}
	return found
}

func TestAnExchangeTakesThePlaceOfWhatWasGiven(t *testing.T) {
	_, topic := alone(t, 0)
	for i := range passiveSize {
		topic.passive.add(topic, someID(i), someID(1000+i), nil)
	}
	given, incoming := []peer.ID{someID(3), someID(4)}, []peer.ID{someID(100), someID(101)}
	topic.passive.exchange(topic, incoming, someID(2000), given)
	for i, id := range incoming {
		if topic.passive.find(id) == nil || topic.passive.find(given[i]) != nil {
			t.Errorf("%s", id)
		}
	}
}

func TestBeyondAAFewThatLackLinksGetOne(t *testing.T) {
	n, topic := alone(t, activeSize)
	asked := []peer.ID{}
	for i := 100; len(asked) < maxInNeed+2; i++ {
		if !topic.isNext(someID(i)) {
			asked = append(asked, someID(i))
		}
	}
	for _, id := range asked {
		topic.onNeighbor(id, lacking())
	}
	n.run(time.Second) // round trips of those that were not taken in
	for i, id := range asked {
		if linked := topic.link(id) != nil; linked != (i < maxInNeed) {
			t.Errorf("%d is linked: %t", i, linked)
		}
	}
}

func TestAGroupThatHasMoreThanItsShareEndsNoOtherLink(t *testing.T) {
	_, topic := alone(t, activeBound)
	for _, l := range topic.links[:activeShare+1] {
		l.group = "a"
	}
	kept := topic.kept()
	for _, l := range topic.links[activeShare+1:] {
		if !slices.Contains(kept, l.id) {
			t.Errorf("%s may be ended", l.id)
		}
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
		if !slices.Contains(chosen, contacts[0]) || !slices.Contains(chosen, contacts[1]) || len(chosen) != contactsAsked {
			t.Fatalf("%v", chosen)
		}
	}
}
