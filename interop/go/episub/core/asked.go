package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// What an ACCEPT can answer: each JOIN and each REQUEST brings one link at most.

// openJoins is when the JOINs without an answer were sent, oldest first.
type openJoins []time.Time

func (o *openJoins) add(now time.Time) {
	*o = append(*o, now)
	if len(*o) > maxOpen {
		*o = (*o)[1:]
	}
}

// take is whether a JOIN is open, which it uses up.
func (o *openJoins) take(now time.Time) bool {
	for len(*o) > 0 {
		at := (*o)[0]
		*o = (*o)[1:]
		if now.Sub(at) < joinLifetime {
			return true
		}
	}
	return false
}

// openRequests is when peers were asked for a link by name that have not answered.
type openRequests map[peer.ID]time.Time

func (o openRequests) open(id peer.ID, now time.Time) {
	for other, at := range o {
		if now.Sub(at) >= requestLifetime {
			delete(o, other)
		}
	}
	o[id] = now
}

// take is whether an ACCEPT of a peer answers a request, which it uses up.
func (o openRequests) take(id peer.ID, now time.Time) bool {
	at, asked := o[id]
	delete(o, id)
	return asked && now.Sub(at) < requestLifetime
}

// askForLink sends a NEIGHBOR request.
func (t *Topic) askForLink(id peer.ID, kind pb.Neighbor_Kind) {
	t.requests.open(id, t.port.Now())
	t.say(id, pb.Neighbor_REQUEST, kind)
}

// sendJoin sends a JOIN of this node.
func (t *Topic) sendJoin(id peer.ID, ttl uint32) {
	t.port.Send(id, controlJoin(&pb.Join{Peer: t.port.Info(t.me), Ttl: proto.Uint32(ttl)}))
}
