package main

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/lines"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
)

const recent = 3 * time.Second

// stored is a message that was seen; the latest are kept whole.
type stored struct {
	message *pb.Message
	hops    uint32
	along   string // the source whose tree it came along
	asked   []peer.ID
	at      time.Time
	copies  map[peer.ID]int // on request
}

// announced is a message that IHAVEs named and that has not come.
type announced struct {
	by    []peer.ID
	asked []peer.ID
	ticks int
}

// broadcast is Plumtree's state.
type broadcast struct {
	seen    map[string]*stored
	order   []string // of `seen`
	lazy    []string // ids for the next IHAVE
	missing map[string]*announced
}

// publish sends a message of our own.
func (n *node) publish(message *pb.Message) {
	n.push(message, 0, "", n.chooseTree())
}

// gossip handles a payload of a peer. Nothing is made of it before its signature holds.
func (n *node) gossip(from peer.ID, message *pb.Message, hops uint32, along string) {
	if payload.StrictSign.Check(message) != nil {
		lines.Emit("refused", lines.Fields{"peer": from.String()})
		return
	}
	neighbor := n.active[from]
	if known := n.seen[payload.StrictSign.ID(message)]; known != nil {
		if neighbor != nil && !n.duplicate(from, known) {
			neighbor.eager = false
			n.control(from, &pb.Control{Message: &pb.Control_Prune{Prune: &pb.Prune{}}})
		}
		return
	}
	source := sourceOf(message.From)
	t := n.trees[source]
	if neighbor == nil {
		n.tellNoNeighbor(from)
	} else if along == "" {
		neighbor.eager = true
	} else if along == source && t != nil && t.parent == "" && source != n.source {
		t.parent = from
	}
	emitDelivery(message)
	n.push(message, hops, from, along)
}

// push stores a new message and sends it to the eager neighbours, its id to the others later.
func (n *node) push(message *pb.Message, hops uint32, from peer.ID, along string) {
	id := payload.StrictSign.ID(message)
	known := &stored{message: message, hops: hops, along: along, at: time.Now(), copies: map[peer.ID]int{}}
	if waiting := n.missing[id]; waiting != nil {
		known.asked = waiting.asked
	}
	n.seen[id] = known
	n.order = append(n.order, id)
	if len(n.order) > cacheSize {
		delete(n.seen, n.order[0])
		n.order = n.order[1:]
	}
	delete(n.missing, id)
	n.lazy = append(n.lazy, id)
	pushed := n.targets(known)
	for _, other := range pushed {
		if other != from {
			n.sendPayload(other, known)
		}
	}
	if t := n.trees[along]; t != nil {
		for other := range t.standbyOf {
			if other != from && !slices.Contains(pushed, other) {
				n.announce(other, []string{id})
			}
		}
	}
}

func (n *node) sendPayload(id peer.ID, known *stored) {
	header := &pb.Gossip{Hops: proto.Uint32(known.hops + 1)}
	if known.along == sourceOf(known.message.From) {
		header.OwnTree = proto.Bool(true)
	} else if known.along != "" {
		header.Along = []byte(known.along)
	}
	n.send(id, &pb.Rpc{Publish: []*pb.Message{known.message}}, &pb.EpisubFrame{
		Topic: &n.topic, Gossip: header,
	})
}

// flushLazy announces what came since the last time to the neighbours that it wasn't pushed to.
func (n *node) flushLazy() {
	ids := n.lazy
	n.lazy = nil
	for id := range n.active {
		n.announce(id, slices.DeleteFunc(slices.Clone(ids), func(message string) bool {
			known := n.seen[message]
			return known == nil || slices.Contains(n.targets(known), id)
		}))
	}
}

// announceRecent tells a new neighbour of the last seconds' messages.
func (n *node) announceRecent(id peer.ID) {
	ids := []string{}
	for _, message := range n.order {
		if time.Since(n.seen[message].at) < recent {
			ids = append(ids, message)
		}
	}
	n.announce(id, ids)
}

func (n *node) announce(id peer.ID, ids []string) {
	for part := range slices.Chunk(ids, maxIDs) {
		summary := []*pb.MessageSummary{}
		for _, message := range part {
			if known := n.seen[message]; known != nil {
				summary = append(summary, &pb.MessageSummary{
					Id: []byte(message), Hops: proto.Uint32(known.hops + 1),
				})
			}
		}
		n.control(id, &pb.Control{Message: &pb.Control_Ihave{Ihave: &pb.IHave{Summary: summary}}})
	}
}

func (n *node) ihave(from peer.ID, message *pb.IHave) {
	if n.active[from] == nil {
		n.tellNoNeighbor(from)
		return
	}
	for _, entry := range message.Summary[:min(len(message.Summary), maxIDs)] {
		id := string(entry.GetId())
		if id == "" || n.seen[id] != nil || len(n.missing) >= cacheSize {
			continue
		}
		if n.missing[id] == nil {
			n.missing[id] = &announced{}
		}
		if waiting := n.missing[id]; !slices.Contains(waiting.by, from) && len(waiting.by) < maxLinks {
			waiting.by = append(waiting.by, from)
		}
	}
}

// walkMissing asks for what is still missing at its second touch, one announcer at a time.
func (n *node) walkMissing() {
	asked := map[peer.ID][][]byte{}
	for id, waiting := range n.missing {
		waiting.ticks++
		if waiting.ticks > missingTicks {
			delete(n.missing, id)
		} else if waiting.ticks >= 2 {
			from := waiting.by[(waiting.ticks-2)%len(waiting.by)]
			waiting.asked = append(waiting.asked, from)
			asked[from] = append(asked[from], []byte(id))
		}
	}
	for from, ids := range asked {
		neighbor := n.active[from]
		if neighbor == nil {
			continue
		}
		for part := range slices.Chunk(ids, maxIDs) {
			n.control(from, &pb.Control{Message: &pb.Control_Graft{Graft: &pb.Graft{Ids: part}}})
		}
	}
}

func (n *node) graft(from peer.ID, message *pb.Graft) {
	neighbor := n.active[from]
	if neighbor == nil {
		n.tellNoNeighbor(from)
		return
	}
	if len(message.Ids)+len(message.Sources)+len(message.Standby) == 0 {
		neighbor.eager = true
	}
	for _, id := range message.Ids[:min(len(message.Ids), maxIDs)] {
		known := n.seen[string(id)]
		if known != nil && known.along == "" {
			neighbor.eager = true
		}
		if known != nil && known.copies[from] < 3 {
			known.copies[from]++
			n.sendPayload(from, known)
		}
	}
	n.graftTrees(from, message)
}

// prune moves the link in the default tree, or in those that the message names.
func (n *node) prune(neighbor *link, from peer.ID, message *pb.Prune) {
	if len(message.Sources)+len(message.Standby) == 0 {
		neighbor.eager = false
	}
	n.pruneTrees(from, message)
}
