package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// stored is a message that was seen. Its payload is kept for a while, its id for longer.
type stored struct {
	id      string
	message *pb.Message // nil once it left the cache
	size    int
	source  string // of the message; "" if it names no author
	hops    uint32
	along   string // the source whose tree it came along; "" is the default tree
	at      time.Time
	from    peer.ID // that brought the first copy; "" if it is our own
	asked   []peer.ID
	served  map[peer.ID]int // copies on request
}

// goesDown is whether it comes from the root of its tree; without an author, the tree's word counts.
func (s *stored) goesDown() bool {
	return s.along != "" && (s.source == "" || s.source == s.along)
}

// cache bounds what is stored, by time, number and bytes.
type cache struct {
	known map[string]*stored
	order []*stored // of the ids, the oldest first
	kept  []*stored // of the payloads
	bytes int
}

func (c *cache) add(s *stored, now time.Time) {
	s.size = proto.Size(s.message)
	c.known[s.id] = s
	c.order = append(c.order, s)
	c.kept = append(c.kept, s)
	c.bytes += s.size
	for len(c.kept) > 0 {
		oldest := c.kept[0]
		if now.Sub(oldest.at) < cacheFor && len(c.kept) <= cacheMessages && c.bytes <= cacheBytes {
			break
		}
		c.kept = c.kept[1:]
		c.bytes -= oldest.size
		oldest.message = nil
	}
	for len(c.order) > 0 && (now.Sub(c.order[0].at) >= seenFor || len(c.order) > maxSeen) {
		delete(c.known, c.order[0].id)
		c.order = c.order[1:]
	}
}

// since are the ids of the cached messages from then on, at most so many, the newest.
func (c *cache) since(then time.Time, most int) []string {
	ids := []string{}
	for _, s := range c.kept[max(0, len(c.kept)-most):] {
		if !s.at.Before(then) {
			ids = append(ids, s.id)
		}
	}
	return ids
}
