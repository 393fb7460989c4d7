package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// rate is so many messages a second, and so many at once.
type rate struct{ second, burst float64 }

// limitOf is what one peer may send of a kind of message; acting on these costs more than sending
// them. The kinds not named here aren't limited.
func limitOf(control *pb.Control) (string, rate) {
	switch message := control.Message.(type) {
	case *pb.Control_Join:
		return "join", rate{5, 100}
	case *pb.Control_ForwardJoin:
		return "forward_join", rate{0.2, 30}
	case *pb.Control_Neighbor:
		if message.Neighbor.GetRole() == pb.Neighbor_REQUEST && message.Neighbor.Role != nil {
			return "request", rate{0.1, 5}
		}
		return "neighbor", rate{1, 20}
	case *pb.Control_Shuffle:
		return "shuffle", rate{1, 20}
	case *pb.Control_Leave:
		return "leave", rate{20, 200}
	case *pb.Control_GetNodes, *pb.Control_GetTopics:
		return "question", rate{0.5, 10}
	}
	return "", rate{}
}

type bucket struct {
	tokens float64
	at     time.Time
}

// rates are the buckets of each peer.
type rates map[peer.ID]map[string]*bucket

func (r rates) allow(from peer.ID, control *pb.Control, now time.Time) bool {
	kind, limit := limitOf(control)
	return kind == "" || r.take(from, kind, limit, now)
}

// allowLine is about the lines of a ROOT.
func (r rates) allowLine(from peer.ID, now time.Time) bool {
	return r.take(from, "root", rate{50, 256}, now)
}

func (r rates) take(from peer.ID, kind string, limit rate, now time.Time) bool {
	if r[from] == nil {
		if len(r) >= 1024 {
			clear(r)
		}
		r[from] = map[string]*bucket{}
	}
	b := r[from][kind]
	if b == nil {
		b = &bucket{limit.burst, now}
		r[from][kind] = b
	}
	b.tokens = min(limit.burst, b.tokens+now.Sub(b.at).Seconds()*limit.second)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
