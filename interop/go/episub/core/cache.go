package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// message is one message, from its announcement until its id is forgotten.
type message struct {
	id      string
	payload *pb.Message // nil before it came, and once it left the cache
	size    int
	source  string // the author; "" if it names none
	along   string // the source whose tree it came along; "" is the shared tree
	hops    uint32
	sender  peer.ID // that brought the first copy; "" if it is our own
	at      time.Time
	served  map[peer.ID]int // copies on request

	holders     []peer.ID // that are known to have it
	announced   bool      // to all others: holders are no longer noted
	informant   peer.ID   // that announced it first, while it is missing
	announcedAt time.Time
	due         time.Time // when to ask for it, or to ask the next
	asked       []peer.ID
}

// goesDown is whether it comes from the root of its tree; without an author, the tree's word counts.
func (m *message) goesDown() bool {
	return m.along != "" && (m.source == "" || m.source == m.along)
}

// pushedFor is how long pushes of a large message are under way: who hears of it meanwhile asks for a copy
// too many.
func (m *message) pushedFor() time.Duration {
	return time.Duration(m.size/largeMessage) * largeTakes
}

func (m *message) noteHolder(id peer.ID) {
	if !m.announced && len(m.holders) < maxHolders {
		m.holders = with(m.holders, id)
	}
}

// timesAsked is how often a peer got a GRAFT for it.
func (m *message) timesAsked(id peer.ID) int {
	return len(slices.DeleteFunc(slices.Clone(m.asked), func(other peer.ID) bool { return other != id }))
}

// cache bounds what is stored, by time, number and bytes.
type cache struct {
	open  map[string]*message // announced, and not here
	known map[string]*message
	order []*message // of the ids, the oldest first
	kept  []*message // of the payloads
	bytes int
}

// take is the record of a message that has come.
func (c *cache) take(id string) *message {
	m := c.open[id]
	if m == nil {
		return &message{id: id}
	}
	delete(c.open, id)
	return m
}

func (c *cache) store(m *message, now time.Time) {
	m.at, m.size, m.served = now, proto.Size(m.payload), map[peer.ID]int{}
	c.known[m.id] = m
	c.order = append(c.order, m)
	c.kept = append(c.kept, m)
	c.bytes += m.size
	for len(c.kept) > 0 {
		oldest := c.kept[0]
		if now.Sub(oldest.at) < cacheFor && len(c.kept) <= cacheMessages && c.bytes <= cacheBytes {
			break
		}
		c.kept = c.kept[1:]
		c.bytes -= oldest.size
		oldest.payload, oldest.served, oldest.holders, oldest.asked = nil, nil, nil, nil
	}
	for len(c.order) > 0 && (now.Sub(c.order[0].at) >= seenFor || len(c.order) > maxSeen) {
		delete(c.known, c.order[0].id)
		c.order = c.order[1:]
	}
}

// recent are the cached messages since then, and of those of others since received, the newest; the
// oldest first.
func (c *cache) recent(since, received time.Time, most int) []*message {
	found := []*message{}
	for _, m := range slices.Backward(c.kept) {
		if m.at.Before(since) || len(found) >= most {
			break
		}
		if m.sender == "" || !m.at.Before(received) {
			found = append(found, m)
		}
	}
	slices.Reverse(found)
	return found
}
