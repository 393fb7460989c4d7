package core

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// What a member does with the joins of others: GETNODES, JOIN and FORWARDJOIN.

// onGetNodes names peers next to the asker on rings, and a sample of both views.
func (t *Topic) onGetNodes(from peer.ID, asked *pb.GetNodes) {
	count, places := nodesGiven, nodesGiven-nodesSampled
	if asked.GetCount() != 0 {
		count = min(count, int(asked.GetCount()))
		places = count
	}
	now := t.port.Now()
	for len(t.joiners.ids) > 0 && now.Sub(t.joiners.of[t.joiners.ids[0]]) >= joinersFor {
		t.joiners.take(t.joiners.ids[0])
	}
	known := slices.Concat(t.neighbors(), t.passive.ids(), t.joiners.ids)
	chosen := t.nearest(from, known, namedEach)
	chosen = chosen[:min(len(chosen), places)]
	t.noteJoiner(from)
	chosen = append(chosen, t.sample(t.neighbors(append(chosen, from)...), (count-len(chosen))/2)...)
	chosen = append(chosen, t.sample(t.passive.ids(append(chosen, from)...), count-len(chosen))...)
	t.port.Send(from, controlNodes(&pb.Nodes{Peers: t.infos(chosen), Ttl: proto.Uint32(joinTTL)}))
}

// noteJoiner remembers a peer in place of the oldest, of its own group where that has its share.
func (t *Topic) noteJoiner(id peer.ID) {
	t.joiners.take(id)
	if len(t.joiners.ids) >= maxJoiners {
		group := t.port.Group(id)
		like := slices.DeleteFunc(slices.Clone(t.joiners.ids), func(other peer.ID) bool {
			return group == "" || t.port.Group(other) != group
		})
		if len(like) >= maxJoiners/4 {
			t.joiners.take(like[0])
		}
	}
	t.joiners.put(id, t.port.Now())
}

// onJoin accepts where there is room or the walk ends here; else it passes the JOIN on.
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
	case joiner == t.me || known != nil:
		if !t.passJoin(from, joiner, join, ttl) && known != nil {
			t.say(joiner, pb.Neighbor_ACCEPT, known.kind)
		}
	case !t.isFull() || t.isNext(joiner) || !t.passJoin(from, joiner, join, ttl):
		t.dialForOthers(joiner, func(up bool) { t.admitJoin(from, joiner, join, ttl, up) })
	}
}

func (t *Topic) admitJoin(from, joiner peer.ID, join *pb.Join, ttl uint32, up bool) {
	switch {
	case !up:
		t.passJoin(from, joiner, join, ttl)
	case t.link(joiner) != nil:
	case !t.makeRoom(joiner, true):
		t.reject(joiner)
	default:
		t.admit(joiner, random, nil)
		if next := t.pick(joiner); next != "" {
			t.port.Send(next, controlForwardJoin(&pb.ForwardJoin{
				Peer: join.Peer, Ttl: proto.Uint32(joinTTL),
			}))
		}
	}
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
	t.passive.add(t, id, from, nil)
	if ttl := min(message.GetTtl(), joinTTL); ttl > 0 {
		if next := t.pick(from, id); next != "" {
			t.port.Send(next, controlForwardJoin(&pb.ForwardJoin{
				Peer: message.Peer, Ttl: proto.Uint32(ttl - 1),
			}))
		}
	}
}
