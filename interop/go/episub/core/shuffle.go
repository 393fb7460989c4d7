package core

import (
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// shuffling is both sides of shuffles: what we offer, and what we await from others' origins.
type shuffling struct {
	offered  []peer.ID // nil while no reply is awaited
	ttl      uint32
	reply    timer
	answered table[answered]
}

// answered is what an origin got that has yet to send what it offers.
type answered struct {
	offered int
	given   []peer.ID
}

// shuffleRound shuffles with a random member; at rest with a neighbour, which needs no dial.
func (t *Topic) shuffleRound() {
	t.shuffle.ttl = 0
	if t.shuffles.interval == t.shuffles.least {
		t.shuffle.ttl = shuffleTTL
	}
	t.shuffles.next()
	t.offer()
}

// noReply: the same again with half the TTL; at 0 the neighbour itself answers.
func (t *Topic) noReply() {
	t.shuffle.ttl /= 2
	t.offer()
}

func (t *Topic) offer() {
	s := &t.shuffle
	walker := t.pick()
	if walker == "" {
		return
	}
	s.offered = append(t.sample(t.neighbors(walker), shuffleActive), t.sample(t.passive.ids(), shufflePassive)...)
	t.port.Send(walker, controlShuffle(&pb.Shuffle{
		Peer: t.port.Info(t.me), Ttl: proto.Uint32(s.ttl), Offered: unlessZero(len(s.offered)),
	}))
	if s.ttl > 0 {
		s.reply.set(t.port.Now().Add(t.withDialTime(shuffleTimeout)))
	}
}

func (t *Topic) onShuffle(from peer.ID, message *pb.Shuffle) {
	origin, ok := t.port.Learn(message.Peer)
	if !ok || origin == t.me || message.GetTtl() > maxTTL {
		return
	}
	peers := t.learn(message.Peers)
	peers = peers[:min(len(peers), shuffleActive+shufflePassive)]
	offered := min(int(message.GetOffered()), shuffleActive+shufflePassive)
	if len(peers) > 0 {
		offered = 0 // peers that go along are all that there is
	}
	if ttl := min(message.GetTtl(), shuffleTTL); ttl > 0 && len(t.links) > 1 {
		if next := t.pick(from, origin); next != "" {
			t.port.Send(next, controlShuffle(&pb.Shuffle{
				Peer: message.Peer, Peers: t.infos(peers), Ttl: proto.Uint32(ttl - 1),
				Offered: unlessZero(offered),
			}))
			return
		}
	}
	t.dialForOthers(origin, func(up bool) {
		if !up {
			return
		}
		given := t.sample(t.passive.ids(origin), max(offered, len(peers))+1)
		t.port.Send(origin, controlShuffleReply(&pb.ShuffleReply{Peers: t.infos(given)}))
		t.passive.exchange(t, append([]peer.ID{origin}, peers...), origin, given)
		if offered == 0 {
			t.release(origin)
		} else if oldest := t.shuffle.answered.put(origin, answered{offered, given}); oldest != "" {
			t.release(oldest)
		}
	})
}

func (t *Topic) onShuffleReply(from peer.ID, message *pb.ShuffleReply) {
	offered := t.shuffle.offered
	if offered == nil {
		return
	}
	t.shuffle.offered = nil
	t.shuffle.reply.cancel()
	found := t.learn(message.Peers)
	t.passive.exchange(t, found[:min(len(found), len(offered)+1)], from, offered)
	if len(offered) > 0 {
		// The walk carried their number alone.
		t.port.Send(from, controlNodes(&pb.Nodes{Peers: t.infos(offered), Ttl: proto.Uint32(joinTTL)}))
	}
}

func unlessZero(count int) *uint32 {
	if count == 0 {
		return nil
	}
	return proto.Uint32(uint32(count))
}

// takeOffered takes in what an origin offers, in place of what it got, if that is awaited.
func (t *Topic) takeOffered(from peer.ID, found []peer.ID) {
	if to, awaited := t.shuffle.answered.take(from); awaited {
		t.passive.exchange(t, found[:min(len(found), to.offered)], from, to.given)
		t.release(from)
	}
}
