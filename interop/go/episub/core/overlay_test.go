package core

import (
	"slices"
	"testing"
	"time"
)

func TestTenNodesDeliverEverythingOnce(t *testing.T) {
	n := newNetwork(t, 10)
	n.run(30 * time.Second)
	n.checkViews(n.nodes, randomLinks)
	n.publish(n.nodes, 2, 500*time.Millisecond) // the trees come to stand
	n.run(2 * time.Second)
	n.pushes = 0
	messages := n.publish(n.nodes, 20, 20*time.Millisecond)
	n.run(5 * time.Second)
	n.check(n.nodes, messages)
	if copies := float64(n.pushes) / float64(9*len(messages)); copies > 1.1 {
		t.Errorf("%.2f copies a delivery", copies)
	}
}

func TestEveryMessageIsUsed(t *testing.T) {
	n := newNetwork(t, 30)
	n.run(30 * time.Second)
	n.cut = func(a, b *simNode) bool { return a == n.nodes[7] || b == n.nodes[7] }
	n.disconnect()
	n.run(10 * time.Second)
	n.cut = func(a, b *simNode) bool { return false }
	n.run(160 * time.Second) // it comes back, with JOIN
	n.publish(n.nodes, 3, 200*time.Millisecond)
	proof, err := Prove(n.nodes[3].key, "t", n.now)
	if err != nil {
		t.Fatal(err)
	}
	n.nodes[3].topic.Leave(proof)
	n.run(5 * time.Second)
	for _, name := range []string{
		"get_nodes", "nodes", "get_topics", "topics", "join", "forward_join", "neighbor",
		"disconnect", "leave", "shuffle", "shuffle_reply", "ihave", "prune", "graft", "root",
	} {
		if n.sent[name] == 0 {
			t.Errorf("no %s", name)
		}
	}
	for _, node := range n.alive() {
		if node != n.nodes[3] && node.topic.link(n.nodes[3].id) != nil {
			t.Error("a node that left is a neighbour")
		}
	}
}

func TestTheOthersGoOnWhenSomeAreKilled(t *testing.T) {
	n := newNetwork(t, 20)
	n.run(30 * time.Second)
	n.publish(n.nodes, 2, 100*time.Millisecond)
	for _, node := range n.nodes[5:10] {
		n.kill(node)
	}
	messages := n.publish(n.alive(), 5, 20*time.Millisecond)
	n.run(30 * time.Second)
	n.check(n.alive(), messages)
	n.checkViews(n.alive(), randomLinks)
}

func TestAFrozenNeighbourIsLeft(t *testing.T) {
	n := newNetwork(t, 10)
	n.run(30 * time.Second)
	n.publish(n.nodes, 2, 100*time.Millisecond)
	n.nodes[4].frozen = true
	messages := n.publish(n.alive(), 5, 50*time.Millisecond)
	n.run(45 * time.Second)
	n.check(n.alive(), messages)
	n.checkViews(n.alive(), randomLinks)
}

func TestNobodyIsLeftAfterAPause(t *testing.T) {
	n := newNetwork(t, 10)
	n.run(60 * time.Second)
	topic := n.nodes[4].topic
	n.now = n.now.Add(time.Minute) // this process stood still: all have been silent for as long
	before, links := n.sent["neighbor"], topic.neighbors()
	topic.checkLinks()
	if n.sent["neighbor"]-before != len(links) {
		t.Error("not every neighbour was queried")
	}
	n.run(silentQueries * answerTimeout)
	if len(topic.search.lost.ids) > 0 {
		t.Error("a neighbour that answers was left")
	}
}

func TestLostMessagesAreFetched(t *testing.T) {
	n := newNetwork(t, 10)
	n.run(30 * time.Second)
	n.loss = 0.1
	messages := n.publish(n.nodes, 10, 50*time.Millisecond)
	n.run(10 * time.Second)
	n.check(n.nodes, messages)
}

func TestHalvesOfAPartitionMerge(t *testing.T) {
	n := newNetwork(t, 10)
	n.run(30 * time.Second)
	n.publish(n.nodes, 2, 100*time.Millisecond)
	n.cut = func(a, b *simNode) bool {
		return slices.Index(n.nodes, a) < 5 != (slices.Index(n.nodes, b) < 5)
	}
	n.run(35 * time.Second) // what is silent for so long has failed
	messages := n.publish(n.nodes, 2, 100*time.Millisecond)
	n.run(5 * time.Second)
	n.cut = func(a, b *simNode) bool { return false }
	n.run(60 * time.Second)
	n.checkViews(n.nodes, randomLinks)
	late := n.publish(n.nodes, 2, 100*time.Millisecond)
	n.run(10 * time.Second)
	n.check(n.nodes, late)
	n.check(n.nodes, messages)
}

func TestAHalfMissesNothingOfItsOwn(t *testing.T) {
	n := newNetwork(t, 20)
	n.run(30 * time.Second)
	lone := n.nodes[7]
	near := func(node *simNode) bool { return node != lone && lone.topic.link(node.id) != nil }
	there := map[*simNode]bool{}
	own := []*simNode{}
	for _, node := range n.nodes {
		if there[node] = near(node); !there[node] {
			own = append(own, node)
		}
	}
	n.cut = func(a, b *simNode) bool { return there[a] != there[b] }
	messages := n.publish(own, 1, 500*time.Millisecond)
	n.disconnect()
	n.run(20 * time.Second)
	n.check(own, messages)
}

func TestAMessageWithoutItsSignatureIsRefused(t *testing.T) {
	n := newNetwork(t, 2)
	n.run(time.Second)
	messages := n.publish(n.nodes[:1], 1, time.Second)
	stored := n.nodes[0].topic.cache.kept[0].payload
	stored.Data = []byte("other")
	stored.Seqno = []byte("12345678")
	if n.nodes[1].topic.Gossip(n.nodes[0].id, stored, nil) == nil {
		t.Error("it was accepted")
	}
	n.check(n.nodes[1:], messages)
}
