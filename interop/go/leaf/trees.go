package main

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
	"episub-interop/internal/proofs"
)

const (
	sourceSize = 8 // bytes
	maxTrees   = 128

	setup         = 500 * time.Millisecond // until a tree is used
	settle        = 500 * time.Millisecond // until a former parent is left, and standbys are asked
	choose        = 10 * time.Millisecond
	retryRoot     = time.Second
	renewRoot     = 20 * time.Second // after three messages
	leastRoot     = 4 * time.Second
	refreshRoot   = 96 * time.Second
	treeIdle      = 120 * time.Second
	standbys      = 2
	unknownDelay  = 50_000 // microseconds
	floodHops     = 2
	renewMessages = 3
)

// tree is this node's part in the tree of one source.
type tree struct {
	round, requested uint64
	proof            []byte // of this round
	cost             uint32
	rootAt, usableAt time.Time
	renewing         bool
	carried          int // messages of our own since the last ROOT
	parent           peer.ID
	offers           []peer.ID // what brought the last ROOT, in this order
	asked            []peer.ID // our standbys
	children         map[peer.ID]bool
	standbyOf        map[peer.ID]bool
}

func sourceOf(author []byte) string {
	digest := sha256.Sum256(author)
	return string(digest[:sourceSize])
}

func (t *tree) fresh() bool  { return time.Since(t.rootAt) < treeIdle }
func (t *tree) stands() bool { return t.fresh() && time.Now().After(t.usableAt) }

// treeOf is the tree of a source, made if there is none.
func (n *node) treeOf(source string) *tree {
	if n.trees[source] == nil {
		if len(n.trees) >= maxTrees {
			oldest := source
			for other, t := range n.trees {
				if oldest == source || t.rootAt.Before(n.trees[oldest].rootAt) {
					oldest = other
				}
			}
			delete(n.trees, oldest)
		}
		n.trees[source] = &tree{children: map[peer.ID]bool{}, standbyOf: map[peer.ID]bool{}}
	}
	return n.trees[source]
}

func (t *tree) noteRoot(round uint64, proof []byte) {
	if !t.stands() {
		t.usableAt = time.Now().Add(setup)
	}
	t.round, t.proof, t.rootAt, t.carried = round, proof, time.Now(), 0
}

// chooseTree is the tree that our next message goes along; "" is the default tree.
func (n *node) chooseTree() string {
	t := n.treeOf(n.source)
	ready, age := t.stands() && len(t.children) > 0, time.Since(t.rootAt)
	if age > refreshRoot || (!ready && age > retryRoot) || (age > renewRoot && t.carried >= renewMessages) {
		n.sendRoot(t)
	}
	if !ready {
		return ""
	}
	t.carried++
	return n.source
}

func (n *node) sendRoot(t *tree) {
	round := max(t.round+1, uint64(time.Now().Unix()))
	t.noteRoot(round, proofs.Own(proofs.Secret(n.key)+n.topic, round))
	n.flood([]*pb.TreeRoot{n.line(n.source, t)}, "")
}

// line is what a neighbour is sent about a tree.
func (n *node) line(source string, t *tree) *pb.TreeRoot {
	return &pb.TreeRoot{
		Source: []byte(source), Round: proto.Uint32(uint32(t.round % proofs.Rounds)),
		Cost: proto.Uint32(t.cost), Proof: t.proof,
	}
}

func (n *node) flood(lines []*pb.TreeRoot, but peer.ID) {
	for _, other := range n.others(but) {
		n.control(other, &pb.Control{Message: &pb.Control_Root{Root: &pb.Root{Roots: lines}}})
	}
}

// offerTrees sends a new neighbour the trees that stand here.
func (n *node) offerTrees(id peer.ID) {
	lines := []*pb.TreeRoot{}
	for source, t := range n.trees {
		if t.fresh() && (source == n.source || t.parent != "") && len(lines) < maxIDs {
			lines = append(lines, n.line(source, t))
		}
	}
	if len(lines) > 0 {
		n.control(id, &pb.Control{Message: &pb.Control_Root{Root: &pb.Root{Roots: lines}}})
	}
}

// root handles ROOT.
func (n *node) root(from peer.ID, message *pb.Root) {
	neighbor := n.active[from]
	if neighbor == nil {
		n.tellNoNeighbor(from)
		return
	}
	for _, request := range message.Requests[:min(len(message.Requests), maxIDs)] {
		n.requested(from, request)
	}
	fresh := []*pb.TreeRoot{}
	for _, line := range message.Roots[:min(len(message.Roots), maxIDs)] {
		source := string(line.Source)
		known := len(source) == sourceSize && len(line.Proof) == proofs.Size
		if known && source != n.source && n.offered(from, source, line) {
			fresh = append(fresh, n.line(source, n.trees[source]))
		}
	}
	if len(fresh) > 0 {
		n.flood(fresh, from)
	}
}

// offered notes one line of a ROOT; true if its round is new.
func (n *node) offered(from peer.ID, source string, line *pb.TreeRoot) bool {
	t := n.treeOf(source)
	round := uint64(line.GetRound() % proofs.Rounds)
	if bytes.Equal(line.Proof, t.proof) {
		if !slices.Contains(t.offers, from) {
			t.offers = append(t.offers, from)
		}
		return false
	}
	if t.fresh() && !proofs.Later(t.round, t.proof, round, line.Proof) {
		return false
	}
	t.noteRoot(round, line.Proof)
	t.offers = []peer.ID{from}
	t.cost = line.GetCost() + min(unknownDelay, ^uint32(0)-line.GetCost())
	n.later(choose, func() {
		if slices.Contains(t.offers, t.parent) {
			n.graftTree(t.parent, source)
		} else {
			n.adopt(source, t, n.nextParent(t))
		}
	})
	n.later(settle+choose, func() { n.chooseStandbys(source, t) })
	return true
}

// nextParent is the first neighbour that brought the last ROOT and isn't our child.
func (n *node) nextParent(t *tree) peer.ID {
	for _, id := range t.offers {
		if n.active[id] != nil && !t.children[id] {
			return id
		}
	}
	return ""
}

// adopt has a neighbour push to us; the former parent is left a little later.
func (n *node) adopt(source string, t *tree, id peer.ID) {
	if id == "" || id == t.parent {
		return
	}
	former := t.parent
	t.parent = id
	delete(t.children, id)
	n.graftTree(id, source)
	n.later(settle, func() {
		if former != t.parent && n.active[former] != nil {
			n.pruneTree(former, source)
		}
	})
}

func (n *node) graftTree(id peer.ID, source string) {
	n.control(id, &pb.Control{Message: &pb.Control_Graft{Graft: &pb.Graft{Sources: [][]byte{[]byte(source)}}}})
}

func (n *node) pruneTree(id peer.ID, source string) {
	n.control(id, &pb.Control{Message: &pb.Control_Prune{Prune: &pb.Prune{Sources: [][]byte{[]byte(source)}}}})
}

func (n *node) chooseStandbys(source string, t *tree) {
	chosen, sources := []peer.ID{}, [][]byte{[]byte(source)}
	for _, id := range t.offers {
		if n.active[id] != nil && id != t.parent && !t.children[id] && len(chosen) < standbys {
			chosen = append(chosen, id)
			if !slices.Contains(t.asked, id) {
				n.control(id, &pb.Control{Message: &pb.Control_Graft{Graft: &pb.Graft{Standby: sources}}})
			}
		}
	}
	for _, id := range t.asked {
		if n.active[id] != nil && !slices.Contains(chosen, id) {
			n.control(id, &pb.Control{Message: &pb.Control_Prune{Prune: &pb.Prune{Standby: sources}}})
		}
	}
	t.asked = chosen
}

// lostParent replaces a parent, and asks the source for a round if there is no other.
func (n *node) lostParent(source string, t *tree) {
	t.parent = ""
	n.adopt(source, t, n.nextParent(t))
	if t.parent == "" {
		n.request(source, t)
	}
}

func (n *node) request(source string, t *tree) {
	for _, id := range append([]peer.ID{t.parent}, n.others()...) {
		if link := n.active[id]; link != nil && !t.children[id] {
			t.requested = t.round
			n.control(id, &pb.Control{Message: &pb.Control_Root{Root: &pb.Root{
				Requests: []*pb.RootRequest{{Source: []byte(source), Round: proto.Uint32(uint32(t.round))}},
			}}})
			return
		}
	}
}

func (n *node) requested(from peer.ID, request *pb.RootRequest) {
	t := n.trees[string(request.Source)]
	switch {
	case t == nil || uint64(request.GetRound()) != t.round%proofs.Rounds:
	case string(request.Source) != n.source:
		if t.requested != t.round && t.parent != from {
			n.request(string(request.Source), t)
		}
	case !t.renewing && t.carried > 0:
		t.renewing = true
		n.later(leastRoot-time.Since(t.rootAt), func() {
			t.renewing = false
			n.sendRoot(t)
		})
	}
}

// graftTrees and pruneTrees handle what GRAFT and PRUNE say of single sources.
func (n *node) graftTrees(from peer.ID, message *pb.Graft) {
	for _, source := range message.Sources[:min(len(message.Sources), maxIDs)] {
		if t := n.trees[string(source)]; t != nil {
			t.children[from] = true
			delete(t.standbyOf, from)
			if t.parent == from {
				n.lostParent(string(source), t)
			}
		}
	}
	for _, source := range message.Standby[:min(len(message.Standby), maxIDs)] {
		if t := n.trees[string(source)]; t != nil {
			t.standbyOf[from] = true
		}
	}
}

func (n *node) pruneTrees(from peer.ID, message *pb.Prune) {
	for _, source := range message.Sources[:min(len(message.Sources), maxIDs)] {
		if t := n.trees[string(source)]; t != nil {
			delete(t.children, from)
		}
	}
	for _, source := range message.Standby[:min(len(message.Standby), maxIDs)] {
		if t := n.trees[string(source)]; t != nil {
			delete(t.standbyOf, from)
		}
	}
}

// unlinkTrees forgets a neighbour in all trees.
func (n *node) unlinkTrees(id peer.ID) {
	for source, t := range n.trees {
		delete(t.children, id)
		delete(t.standbyOf, id)
		t.offers = slices.DeleteFunc(t.offers, func(other peer.ID) bool { return other == id })
		t.asked = slices.DeleteFunc(t.asked, func(other peer.ID) bool { return other == id })
		if t.parent == id {
			n.lostParent(source, t)
		}
	}
}

// targets are the neighbours to push a message to, `from` perhaps among them.
func (n *node) targets(known *stored) []peer.ID {
	t := n.trees[known.along]
	return slices.DeleteFunc(n.others(), func(id peer.ID) bool {
		link := n.active[id]
		switch {
		case known.along == "":
			return !link.eager
		case t == nil:
			return true
		case known.along == sourceOf(known.message.From):
			return !t.children[id]
		}
		return known.hops >= floodHops && !t.children[id] && id != t.parent
	})
}

// duplicate handles a second copy of a message along a tree; false if it concerns the default tree.
func (n *node) duplicate(from peer.ID, known *stored) bool {
	if known.along == "" {
		return false
	}
	t := n.trees[known.along]
	own := known.along == sourceOf(known.message.From)
	if t != nil && own && from != t.parent && !slices.Contains(known.asked, from) {
		delete(t.children, from)
		n.pruneTree(from, known.along)
	}
	return true
}

// later has the goroutine of run call f after a while.
func (n *node) later(after time.Duration, f func()) {
	time.AfterFunc(after, func() { n.do(f) })
}
