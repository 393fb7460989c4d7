package core

import (
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// What ties an ACCEPT to what it answers: each JOIN and each REQUEST brings one link at most.

// openJoins are the nonces of JOINs without an answer, oldest first.
type openJoins []openJoin

type openJoin struct {
	nonce uint32
	at    time.Time
}

// draw makes the nonce of a JOIN that is being sent.
func (o *openJoins) draw(rng *rand.Rand, now time.Time) uint32 {
	nonce := max(rng.Uint32(), 1)
	*o = append(*o, openJoin{nonce, now})
	if len(*o) > maxOpen {
		*o = (*o)[1:]
	}
	return nonce
}

// take is whether an ACCEPT with this nonce answers an open JOIN, which it uses up. One without a
// nonce, from a node that knows none, uses up the oldest.
func (o *openJoins) take(nonce uint32, now time.Time) bool {
	for i := 0; i < len(*o); i++ {
		entry := (*o)[i]
		if now.Sub(entry.at) < joinLifetime && (nonce == 0 || nonce == entry.nonce) {
			*o = append((*o)[:i:i], (*o)[i+1:]...)
			return true
		}
	}
	return false
}

// answered is whether an ACCEPT answers a JOIN. Without a nonce it does so only where the node has no
// neighbour, or where a first round of JOINs brought too few: else it would get around the nonce.
func (j *joining) answered(t *Topic, nonce uint32, now time.Time) bool {
	if nonce == 0 && len(t.links) > 0 && j.rounds < 2 {
		return false
	}
	return j.open.take(nonce, now)
}

// openRequests are the peers that were asked for a link by name, and have not answered.
type openRequests map[peer.ID]openJoin

// open is the nonce of a request to a peer; it takes the place of an older one's.
func (o openRequests) open(id peer.ID, now time.Time) uint32 {
	for other, entry := range o {
		if now.Sub(entry.at) >= requestLifetime {
			delete(o, other)
		}
	}
	nonce := o[id].nonce%maxNonce + 1
	o[id] = openJoin{nonce, now}
	return nonce
}

const maxNonce = 1<<32 - 1

// take is whether an ACCEPT of a peer with this nonce answers a request, which it uses up.
func (o openRequests) take(id peer.ID, nonce uint32, now time.Time) bool {
	entry, asked := o[id]
	if !asked || (nonce != 0 && nonce != entry.nonce) {
		return false
	}
	delete(o, id)
	return now.Sub(entry.at) < requestLifetime
}

// askForLink sends a NEIGHBOR request.
func (t *Topic) askForLink(id peer.ID, kind pb.Neighbor_Kind) {
	t.sayWith(id, pb.Neighbor_REQUEST, kind, t.requests.open(id, t.port.Now()))
}

// sendJoin sends a JOIN of this node.
func (t *Topic) sendJoin(id peer.ID, ttl, nonce uint32) {
	t.port.Send(id, controlJoin(&pb.Join{
		Peer: t.port.Info(t.me), Ttl: proto.Uint32(ttl), Features: proto.Uint32(sourceTrees),
		Nonce: proto.Uint32(nonce),
	}))
}
