package core

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestAPlaceIsThatOfTheDocument(t *testing.T) {
	id := peer.ID([]byte{0x00, 0x24, 0x61, 0x62, 0x63})
	if at := place("news", 0, id); at != 0x6e14b9066bcb1a86 {
		t.Errorf("%x", at)
	}
}

func TestTheNearestOnEitherSideOfEachRingAreNeighbours(t *testing.T) {
	n, topic := alone(t, 0)
	ids := []peer.ID{}
	for i := range 50 {
		ids = append(ids, someID(i))
	}
	own := func(ring int, id peer.ID) uint64 { return place("t", ring, id) - place("t", ring, topic.me) }
	found := topic.nextTo(topic.me, ids)
	for ring := range rings {
		slices.SortFunc(ids, func(a, b peer.ID) int {
			if own(ring, a) < own(ring, b) {
				return -1
			}
			return 1
		})
		if !slices.Contains(found, ids[0]) || !slices.Contains(found, ids[49]) {
			t.Errorf("ring %d has %v", ring, found)
		}
	}
	if len(found) > 2*rings || !slices.Equal(topic.nearest(topic.me, ids, 1)[:1], found[:1]) &&
		len(topic.nearest(topic.me, ids, 1)) != len(found) {
		t.Errorf("%v", found)
	}
	for _, id := range ids {
		n.groups[id] = "a"
	}
	if found := topic.nextTo(topic.me, ids); len(found) != 1 {
		t.Errorf("%d of one group", len(found))
	}
}

// ringLinks are how many links next on rings these nodes should have, and how many they lack.
func (n *network) ringLinks(nodes []*simNode) (all, lacking int) {
	ids := []peer.ID{}
	for _, node := range nodes {
		ids = append(ids, node.id)
	}
	for _, node := range nodes {
		for _, id := range node.topic.nextTo(node.id, ids) {
			all++
			if node.topic.link(id) == nil {
				lacking++
			}
		}
	}
	return all, lacking
}

func TestNobodyIsWithoutItsRingNeighbours(t *testing.T) {
	n := newNetwork(t, 1)
	for i := 1; i < 200; i++ { // through one contact, within 20 s
		n.start(i)
		n.run(100 * time.Millisecond)
	}
	n.run(90 * time.Second)
	n.checkViews(n.nodes, randomLinks)
	if all, lacking := n.ringLinks(n.nodes); lacking > 0 {
		t.Errorf("%d of %d links are missing", lacking, all)
	}
	for _, node := range n.nodes[30:50] { // a tenth dies, and others take their places
		n.kill(node)
	}
	n.run(120 * time.Second)
	n.checkViews(n.alive(), randomLinks)
	if all, lacking := n.ringLinks(n.alive()); lacking > 0 {
		t.Errorf("%d of %d links are missing after a crash", lacking, all)
	}
	sizes := 0
	for _, node := range n.alive() {
		sizes += len(node.topic.links)
	}
	if mean := float64(sizes) / float64(len(n.alive())); mean < activeSize-0.5 || mean > activeSize+1 {
		t.Errorf("%.2f links", mean)
	}
}
