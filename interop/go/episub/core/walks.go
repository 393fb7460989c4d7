package core

import (
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// What a member does with the joins of others: GETNODES, JOIN and FORWARDJOIN.

func (t *Topic) onGetNodes(from peer.ID, asked *pb.GetNodes) {
	count := nodesGiven
	if asked.GetCount() != 0 {
		count = min(count, int(asked.GetCount()))
	}
	chosen := t.sample(t.neighbors(from), count/2)
	chosen = append(chosen, t.sample(t.passive.ids(from), count-len(chosen))...)
	t.port.Send(from, controlNodes(&pb.Nodes{Peers: t.infos(chosen), Ttl: proto.Uint32(joinTTL)}))
}

func (t *Topic) onJoin(from peer.ID, join *pb.Join) {
	if join.GetTtl() > maxTTL {
		return
	}
	joiner, ok := t.port.Learn(join.Peer)
	if !ok {
		return
	}
	ttl := min(join.GetTtl(), joinTTL)
	known := t.link(joiner)
	switch {
	case joiner == t.me:
		t.passJoin(from, joiner, join, ttl)
	case known != nil:
		if !t.passJoin(from, joiner, join, ttl) {
			t.say(joiner, pb.Neighbor_ACCEPT, known.kind)
		}
	case len(t.links) < activeSize || ttl == 0:
		t.admitJoin(from, joiner, join, ttl)
	case !t.passJoin(from, joiner, join, ttl):
		t.admitJoin(from, joiner, join, 0)
	}
}

func (t *Topic) admitJoin(from, joiner peer.ID, join *pb.Join, ttl uint32) {
	t.port.DialForOthers(joiner, func(up bool) {
		switch {
		case t.left || t.link(joiner) != nil:
		case !up:
			t.passJoin(from, joiner, join, ttl)
		case !t.roomForWish(joiner):
			t.port.Send(joiner, Disconnect(true))
		default:
			t.addOnWish(joiner, pb.Neighbor_RANDOM, nil)
			t.say(joiner, pb.Neighbor_ACCEPT, pb.Neighbor_RANDOM)
			t.linked(joiner)
			if next := t.pick(joiner); next != "" {
				t.port.Send(next, controlForwardJoin(&pb.ForwardJoin{
					Peer: join.Peer, Ttl: proto.Uint32(joinTTL),
				}))
			}
		}
	})
}

// passJoin sends a JOIN on; false where its walk ends.
func (t *Topic) passJoin(from, joiner peer.ID, join *pb.Join, ttl uint32) bool {
	if ttl == 0 {
		return false
	}
	next := t.pick(from, joiner)
	if next == "" {
		return false
	}
	t.port.Send(next, controlJoin(&pb.Join{Peer: join.Peer, Ttl: proto.Uint32(ttl - 1)}))
	return true
}

func (t *Topic) onForwardJoin(from peer.ID, message *pb.ForwardJoin) {
	id, ok := t.port.Learn(message.Peer)
	if !ok || message.GetTtl() > maxTTL {
		return
	}
	t.passive.add(t, id, from, 0)
	if ttl := min(message.GetTtl(), joinTTL); ttl > 0 {
		if next := t.pick(from, id); next != "" {
			t.port.Send(next, controlForwardJoin(&pb.ForwardJoin{
				Peer: message.Peer, Ttl: proto.Uint32(ttl - 1),
			}))
		}
	}
}
