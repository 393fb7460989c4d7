package core

import "github.com/libp2p/go-libp2p/core/peer"

// table is what is known of at most so many peers: the first that was put in gives way.
type table[V any] struct {
	most int
	ids  []peer.ID
	of   map[peer.ID]V
}

func newTable[V any](most int) table[V] { return table[V]{most: most, of: map[peer.ID]V{}} }

func (x *table[V]) has(id peer.ID) bool {
	_, known := x.of[id]
	return known
}

// put makes a peer the last one; it returns the one that gave way, "" if none did.
func (x *table[V]) put(id peer.ID, value V) peer.ID {
	x.take(id)
	oldest := peer.ID("")
	if len(x.ids) >= x.most {
		oldest = x.ids[0]
		x.take(oldest)
	}
	x.ids = append(x.ids, id)
	x.of[id] = value
	return oldest
}

// take is get, and forgets the peer.
func (x *table[V]) take(id peer.ID) (V, bool) {
	value, known := x.of[id]
	if known {
		delete(x.of, id)
		x.ids = without(x.ids, id)
	}
	return value, known
}
