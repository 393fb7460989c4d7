package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// shuffling is the origin's side of a shuffle.
type shuffling struct {
	offered []peer.ID // nil while no reply is awaited
	round   int
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
		Peer: t.port.Info(t.me), Peers: names(s.offered), Ttl: proto.Uint32(ttl),
		RecordsFollow: proto.Bool(true),
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
	offered := t.learn(message.Peers)
	offered = offered[:min(len(offered), shuffleActive+shufflePassive)]
	if ttl := min(message.GetTtl(), shuffleTTL); ttl > 0 && len(t.links) > 1 {
		if next := t.pick(from, origin); next != "" {
			infos := names(offered)
			if !message.GetRecordsFollow() {
				infos = t.infos(offered)
			}
			t.port.Send(next, controlShuffle(&pb.Shuffle{
				Peer: message.Peer, Peers: infos, Ttl: proto.Uint32(ttl - 1),
				RecordsFollow: message.RecordsFollow,
			}))
			return
		}
	}
	t.port.DialForOthers(origin, func(up bool) {
		if !up || t.left {
			return
		}
		given := t.sample(t.passive.ids(origin), len(offered)+1)
		t.port.Send(origin, controlShuffleReply(&pb.ShuffleReply{Peers: t.infos(given)}))
		t.exchange(origin, append([]peer.ID{origin}, offered...), given)
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
		// The walk carried their names alone.
		t.port.Send(from, controlNodes(&pb.Nodes{Peers: t.infos(offered), Ttl: proto.Uint32(joinTTL)}))
	}
}

// names are peers without their records.
func names(ids []peer.ID) []*pb.PeerInfo {
	found := []*pb.PeerInfo{}
	for _, id := range ids {
		found = append(found, &pb.PeerInfo{PeerID: []byte(id)})
	}
	return found
}

// exchange takes peers in, in place of those given away where room is needed.
func (t *Topic) exchange(source peer.ID, incoming, given []peer.ID) {
	t.passive.exchange(t, incoming, source, given)
}
