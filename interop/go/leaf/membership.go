package main

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
	"episub-interop/internal/records"
)

const joinTTL = 6

// link is a neighbour.
type link struct {
	kind  pb.Neighbor_Kind
	eager bool
}

// membership is what a leaf keeps of the overlay.
type membership struct {
	active  map[peer.ID]*link
	asked   bool                 // a GETNODES is unanswered
	joining bool                 // a JOIN is under way
	ttl     uint32               // of the next JOIN
	waiting map[peer.ID][]func() // for a stream to a peer
}

// contacted is called when a peer can be written to, or has announced the topic.
func (n *node) contacted(id peer.ID) {
	if other := n.peer(id); other.out == nil || !other.topics[n.topic] {
		return
	}
	if len(n.active) == 0 && !n.asked && !n.joining {
		n.join()
	}
}

// join looks for neighbours while too few are there: GETNODES to a peer of the topic.
func (n *node) join() {
	if len(n.active) >= wantedLinks {
		return
	}
	contacts := []peer.ID{}
	for id, other := range n.peers {
		if other.out != nil && other.topics[n.topic] {
			contacts = append(contacts, id)
		}
	}
	for _, id := range sample(contacts, 1) {
		n.asked = true
		n.control(id, &pb.Control{Message: &pb.Control_GetNodes{GetNodes: &pb.GetNodes{}}})
	}
}

// nodes sends a JOIN to random peers of an answer, its sender among them.
func (n *node) nodes(id peer.ID, answer *pb.Nodes) {
	if !n.asked {
		return
	}
	n.asked = false
	ttl := min(n.ttl, answer.GetTtl())
	found := []peer.ID{}
	if n.active[id] == nil {
		found = append(found, id)
	}
	for _, info := range answer.Peers[:min(len(answer.Peers), maxPeers)] {
		if other, ok := n.learn(info); ok && n.active[other] == nil {
			found = append(found, other)
		}
	}
	n.joining = true
	if n.ttl > 0 {
		n.ttl-- // should this one fail, the next is answered nearer
	}
	for _, other := range sample(found, wantedLinks-len(n.active)) {
		n.dialThen(other, func() {
			n.control(other, &pb.Control{Message: &pb.Control_Join{Join: &pb.Join{Peer: n.self(), Ttl: &ttl}}})
		})
	}
}

// learn keeps the record of a peer; false for this host itself and for what is no peer id.
func (n *node) learn(info *pb.PeerInfo) (peer.ID, bool) {
	id, err := peer.IDFromBytes(info.GetPeerID())
	if err != nil || id == n.host.ID() {
		return "", false
	}
	if len(info.SignedPeerRecord) > 0 && records.Read(n.host, id, info.SignedPeerRecord) {
		if other := n.peers[id]; other != nil {
			other.record = info.SignedPeerRecord
		}
	}
	return id, true
}

// dialThen calls f when the peer can be written to; not at all if it can't be reached.
func (n *node) dialThen(id peer.ID, f func()) {
	if other := n.peers[id]; other != nil && other.out != nil {
		f()
		return
	}
	if len(n.waiting) >= maxPeers {
		clear(n.waiting)
	}
	n.waiting[id] = append(n.waiting[id], f)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), streamTimeout)
		defer cancel()
		if n.host.Connect(ctx, n.host.Peerstore().PeerInfo(id)) != nil {
			n.do(func() { delete(n.waiting, id) })
		}
	}()
}

// passJoin answers a JOIN where its walk ends, and passes it on elsewhere.
func (n *node) passJoin(from peer.ID, join *pb.Join) {
	joining, ok := n.learn(join.Peer)
	if !ok || joining == n.host.ID() {
		return
	}
	if next := n.others(from, joining); join.GetTtl() > 0 && len(n.active) >= maxLinks && len(next) > 0 {
		ttl := min(join.GetTtl(), joinTTL) - 1
		n.control(sample(next, 1)[0], &pb.Control{Message: &pb.Control_Join{
			Join: &pb.Join{Peer: join.Peer, Ttl: &ttl},
		}})
		return
	}
	n.dialThen(joining, func() {
		if n.active[joining] == nil && len(n.active) >= maxLinks {
			n.disconnect(joining, true)
			return
		}
		n.addLink(joining, pb.Neighbor_RANDOM)
		n.say(joining, pb.Neighbor_ACCEPT, pb.Neighbor_RANDOM)
	})
}

// neighbor handles NEIGHBOR in its four roles.
func (n *node) neighbor(id peer.ID, message *pb.Neighbor) {
	if message.Role == nil || message.Kind == nil {
		return
	}
	known, room := n.active[id], len(n.active) < maxLinks
	switch message.GetRole() {
	case pb.Neighbor_REQUEST:
		switch {
		case known != nil:
			n.say(id, pb.Neighbor_ACCEPT, known.kind)
		case room:
			n.addLink(id, message.GetKind())
			n.say(id, pb.Neighbor_ACCEPT, message.GetKind())
		default:
			n.disconnect(id, true)
		}
	case pb.Neighbor_ACCEPT:
		if known == nil && !room {
			n.disconnect(id, true)
			return
		}
		n.addLink(id, message.GetKind())
	case pb.Neighbor_QUERY:
		switch {
		case known != nil:
			n.say(id, pb.Neighbor_LIST, known.kind)
		case room:
			n.addLink(id, message.GetKind())
			n.say(id, pb.Neighbor_ACCEPT, message.GetKind())
		default:
			n.disconnect(id, true)
		}
	case pb.Neighbor_LIST:
		for _, info := range message.Peers[:min(len(message.Peers), maxPeers)] {
			n.learn(info)
		}
	}
}

// say sends a NEIGHBOR about the link to a peer.
func (n *node) say(id peer.ID, role pb.Neighbor_Role, kind pb.Neighbor_Kind) {
	links, random := uint32(len(n.active)), uint32(0)
	for _, link := range n.active {
		if link.kind == pb.Neighbor_RANDOM {
			random++
		}
	}
	message := &pb.Neighbor{Role: &role, Kind: &kind, Links: &links, RandomLinks: &random}
	if role == pb.Neighbor_LIST {
		message.Peers = n.neighbors(id)
	}
	n.control(id, &pb.Control{Message: &pb.Control_Neighbor{Neighbor: message}})
}

func (n *node) addLink(id peer.ID, kind pb.Neighbor_Kind) {
	if known := n.active[id]; known != nil {
		known.kind = kind
		return
	}
	n.active[id] = &link{kind: kind, eager: true}
	n.joining, n.ttl = false, joinTTL
	n.tellMesh()
	n.announceRecent(id)
	n.offerTrees(id)
}

func (n *node) unlink(id peer.ID) {
	if n.active[id] == nil {
		return
	}
	delete(n.active, id)
	n.unlinkTrees(id)
	n.tellMesh()
	n.join()
}

// leave ends all links for good.
func (n *node) leave() {
	for id := range n.active {
		n.disconnect(id, false)
	}
}

func (n *node) tellMesh() {
	ids := []string{}
	for id := range n.active {
		ids = append(ids, id.String())
	}
	slices.Sort(ids)
	lines.Emit("mesh", lines.Fields{"topic": n.topic, "peers": ids})
}

// others are the neighbours without those.
func (n *node) others(without ...peer.ID) []peer.ID {
	found := []peer.ID{}
	for id := range n.active {
		if !slices.Contains(without, id) {
			found = append(found, id)
		}
	}
	return found
}

func (n *node) neighbors(without peer.ID) []*pb.PeerInfo {
	infos := []*pb.PeerInfo{}
	for _, id := range n.others(without) {
		infos = append(infos, &pb.PeerInfo{PeerID: []byte(id), SignedPeerRecord: n.peers[id].record})
	}
	return infos
}

func (n *node) self() *pb.PeerInfo {
	return &pb.PeerInfo{PeerID: []byte(n.host.ID()), SignedPeerRecord: n.record}
}
