package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// shuffling is both sides of shuffles: what we offer, and what we await from others' origins.
type shuffling struct {
	offered  []peer.ID // nil while no reply is awaited
	round    int
	answered []answered // the oldest first
}

// answered is an origin that got our reply, and has yet to send what it offers.
type answered struct {
	origin  peer.ID
	offered int
	given   []peer.ID
}

func (t *Topic) startShuffles() {
	t.after(time.Duration(t.rng.Float64()*float64(shuffleInterval)), func() {
		t.offer(shuffleTTL)
		t.every(func() time.Duration { return t.jittered(shuffleInterval) }, func() { t.offer(shuffleTTL) })
	})
}

// offer starts a shuffle. Without a reply in time it starts again with half the TTL: at 0 the
// neighbour itself answers.
func (t *Topic) offer(ttl uint32) {
	s := &t.shuffle
	walker := t.pick()
	if walker == "" {
		return
	}
	s.round++
	round := s.round
	s.offered = append(t.sample(t.neighbors(walker), shuffleActive), t.sample(t.passive.ids(), shufflePassive)...)
	t.port.Send(walker, controlShuffle(&pb.Shuffle{
		Peer: t.port.Info(t.me), Ttl: proto.Uint32(ttl), Offered: unlessZero(len(s.offered)),
	}))
	if ttl > 0 {
		t.after(shuffleTimeout, func() {
			if s.round == round && s.offered != nil {
				t.offer(ttl / 2)
			}
		})
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
	t.port.DialForOthers(origin, func(up bool) {
		if !up || t.left {
			return
		}
		given := t.sample(t.passive.ids(origin), max(offered, len(peers))+1)
		t.port.Send(origin, controlShuffleReply(&pb.ShuffleReply{Peers: t.infos(given)}))
		t.exchange(origin, append([]peer.ID{origin}, peers...), given)
		if offered > 0 {
			t.awaitOffered(answered{origin, offered, given})
		}
	})
}

func (t *Topic) onShuffleReply(from peer.ID, message *pb.ShuffleReply) {
	offered := t.shuffle.offered
	if offered == nil {
		return
	}
	t.shuffle.offered = nil
	found := t.learn(message.Peers)
	t.exchange(from, found[:min(len(found), len(offered)+1)], offered)
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

func (t *Topic) awaitOffered(to answered) {
	s := &t.shuffle
	s.forget(to.origin)
	s.answered = append(s.answered, to)
	s.answered = s.answered[max(0, len(s.answered)-maxAnswered):]
}

// forget is called when what an origin offers is no longer awaited.
func (s *shuffling) forget(origin peer.ID) {
	s.answered = slices.DeleteFunc(s.answered, func(a answered) bool { return a.origin == origin })
}

// takeOffered takes in what an origin offers, in place of what it got; false if nothing is awaited from it.
func (t *Topic) takeOffered(from peer.ID, found []peer.ID) bool {
	for _, to := range t.shuffle.answered {
		if to.origin == from {
			t.shuffle.forget(from)
			t.exchange(from, found[:min(len(found), to.offered)], to.given)
			return true
		}
	}
	return false
}

// exchange takes peers in, in place of those given away where room is needed.
func (t *Topic) exchange(source peer.ID, incoming, given []peer.ID) {
	t.passive.exchange(t, incoming, source, given)
}
