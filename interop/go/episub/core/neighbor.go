package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// NEIGHBOR in its four roles, and DISCONNECT.

// say sends a NEIGHBOR about the link to a peer.
func (t *Topic) say(id peer.ID, role pb.Neighbor_Role, kind pb.Neighbor_Kind) {
	t.port.Send(id, controlNeighbor(t.numbers(role, kind)))
}

// query asks a neighbour for a sign of life, and for its list where few passive peers are known.
func (t *Topic) query(l *link) {
	message := t.numbers(pb.Neighbor_QUERY, l.kind)
	if 2*len(t.passive) >= passiveSize {
		message.NumbersOnly = proto.Bool(true)
	}
	t.port.Send(l.id, controlNeighbor(message))
}

// list answers a query.
func (t *Topic) list(l *link, query *pb.Neighbor) {
	message := t.numbers(pb.Neighbor_LIST, l.kind)
	if query.GetNumbersOnly() {
		message.NumbersOnly = query.NumbersOnly
	} else {
		message.Peers = t.infos(t.neighbors(l.id))
	}
	t.port.Send(l.id, controlNeighbor(message))
}

func (t *Topic) numbers(role pb.Neighbor_Role, kind pb.Neighbor_Kind) *pb.Neighbor {
	return &pb.Neighbor{
		Role: &role, Kind: &kind,
		Links:       proto.Uint32(uint32(len(t.links))),
		RandomLinks: proto.Uint32(uint32(t.count(pb.Neighbor_RANDOM))),
	}
}

func (t *Topic) onNeighbor(from peer.ID, message *pb.Neighbor) {
	bad := message.GetLinks() > maxLinks || message.GetRandomLinks() > message.GetLinks()
	if message.Role == nil || message.Kind == nil || bad {
		return
	}
	known := t.link(from)
	switch message.GetRole() {
	case pb.Neighbor_REQUEST:
		t.onRequest(from, known, message)
	case pb.Neighbor_ACCEPT:
		t.onAccept(from, known, message)
	case pb.Neighbor_QUERY:
		switch {
		case known != nil:
			t.note(known, message)
			t.list(known, message)
		case len(t.links) < activeSize:
			t.admit(from, message.GetKind(), message)
		default:
			t.port.Send(from, Disconnect(true))
		}
	case pb.Neighbor_LIST:
		if known != nil {
			t.note(known, message)
			if message.GetNumbersOnly() {
				return
			}
			for _, id := range known.peers {
				if len(t.passive) < passiveSize {
					t.passive.add(t, id, from, 0)
				}
			}
		}
	}
}

// onRequest: room, need or nearness decide, in this order.
func (t *Topic) onRequest(from peer.ID, known *link, message *pb.Neighbor) {
	need := message.GetLinks() < randomLinks ||
		(message.GetKind() == pb.Neighbor_RANDOM && message.GetRandomLinks() < randomLinks)
	switch {
	case known != nil:
		t.note(known, message)
		t.say(from, pb.Neighbor_ACCEPT, known.kind)
	case len(t.links) < activeSize:
		kind := message.GetKind()
		if t.count(pb.Neighbor_RANDOM) < randomLinks && t.count(pb.Neighbor_NEAR) >= nearLinks {
			kind = pb.Neighbor_RANDOM
		}
		t.admit(from, kind, message)
	case need && t.roomForWish(from):
		t.admit(from, pb.Neighbor_RANDOM, message)
	case t.measuring[from] == nil && len(t.measuring) >= maxMeasuring:
		t.port.Send(from, Disconnect(true))
	default:
		under := t.measuring[from] != nil
		t.measuring[from] = message // one answer, to the last of its requests
		if !under {
			t.port.Ping(from, func(rtt time.Duration) { t.onMeasured(from, rtt) })
		}
	}
}

// onMeasured: a peer that asked is a near neighbour if it is much nearer than one of those.
func (t *Topic) onMeasured(from peer.ID, rtt time.Duration) {
	message := t.measuring[from]
	delete(t.measuring, from)
	if t.left || message == nil || t.link(from) != nil {
		return
	}
	if rtt > 0 && len(t.links) < activeSize {
		t.onRequest(from, nil, message)
		return
	}
	victim := t.farther(rtt)
	if victim == nil {
		t.port.Send(from, Disconnect(true))
		return
	}
	t.dropLink(victim.id, true, true)
	t.probe.found = true
	t.admit(from, pb.Neighbor_NEAR, message)
}

func (t *Topic) admit(id peer.ID, kind pb.Neighbor_Kind, said *pb.Neighbor) {
	t.addOnWish(id, kind, said)
	t.say(id, pb.Neighbor_ACCEPT, kind)
	t.linked(id)
}

func (t *Topic) onAccept(from peer.ID, known *link, message *pb.Neighbor) {
	bound := 0
	now := t.port.Now()
	if t.requests.take(from, now) {
		bound = activeSize
		_, asked := t.growth.asked[from]
		if asked || t.nearer.candidate == from || t.lost.rejoined[from] {
			bound = activeBound
		}
	} else if t.joining.open.take(now) {
		bound = activeSize
		if t.joining.walking {
			bound = activeBound
		}
	}
	switch {
	case known != nil:
		t.note(known, message)
	case len(t.links) < bound:
		t.addLink(from, message.GetKind(), message)
		t.linked(from)
	default:
		t.port.Send(from, Disconnect(true))
	}
}

func (t *Topic) onDisconnect(from peer.ID, message *pb.Disconnect) {
	if !message.GetAlive() {
		t.passive.remove(from)
		delete(t.lost.tries, from)
	}
	if t.dropLink(from, false, message.GetAlive()) {
		t.growth.backOff(from, t.port.Now())
		t.replaceLinks()
		return
	}
	t.nearer.refused(t, from)
	t.refusedBy(from)
}
