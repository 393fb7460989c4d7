package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Places of peers on rings (docs/wire.md, section 6, "Rings"): a node has links to the peers just before and
// just after it on each, and all nodes agree about which these are.

// place is where a peer is on one ring of a topic.
func place(topic string, ring int, id peer.ID) uint64 {
	key := binary.BigEndian.AppendUint32(nil, uint32(len(topic)))
	key = binary.BigEndian.AppendUint16(append(key, topic...), uint16(ring))
	hashed := sha256.Sum256(append(key, id...))
	return binary.BigEndian.Uint64(hashed[:])
}

// placed is a peer, and how far after another one it is on a ring, in parts of the turn.
type placed struct {
	id    peer.ID
	after uint64
}

// around are these peers by their places on a ring after `center`, which isn't among them.
func (t *Topic) around(ring int, center peer.ID, ids []peer.ID) []placed {
	own, found, seen := place(t.name, ring, center), []placed{}, map[peer.ID]bool{center: true}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			found = append(found, placed{id, place(t.name, ring, id) - own})
		}
	}
	slices.SortFunc(found, func(a, b placed) int { return cmp.Compare(a.after, b.after) })
	return found
}

// nearest are so many of these peers on either side of `center` on each ring: those next to it by
// distance, then those behind them.
func (t *Topic) nearest(center peer.ID, ids []peer.ID, each int) []peer.ID {
	type rank struct {
		id     peer.ID
		behind int
		away   uint64
	}
	ranks := []rank{}
	for ring := range rings {
		order := t.around(ring, center, ids)
		for behind := range min(each, len(order)) {
			for _, at := range []placed{order[behind], order[len(order)-1-behind]} {
				ranks = append(ranks, rank{at.id, behind, min(at.after, -at.after)})
			}
		}
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.behind, b.behind), cmp.Compare(a.away, b.away))
	})
	found := []peer.ID{}
	for _, rank := range ranks {
		found = with(found, rank.id)
	}
	return found
}

// nextTo are those of these peers that are to be neighbours of `center`: the nearest on either side on
// each ring, but no two of one group, where others are next.
func (t *Topic) nextTo(center peer.ID, ids []peer.ID) []peer.ID {
	found, groups := []peer.ID{}, map[string]peer.ID{}
	for ring := range rings {
		order := t.around(ring, center, ids)
		for range 2 {
			for _, at := range order {
				group := t.port.Group(at.id)
				if first, taken := groups[group]; group == "" || !taken || first == at.id {
					groups[group] = at.id
					found = with(found, at.id)
					break
				}
			}
			slices.Reverse(order)
		}
	}
	return found
}

// ringNeighbors are those of the neighbours, and of others, that are next to this node on a ring.
func (t *Topic) ringNeighbors(others ...peer.ID) []peer.ID {
	return t.nextTo(t.me, append(t.neighbors(), others...))
}

// isNext is whether a peer, no neighbour yet, is nearer on a ring than those that are.
func (t *Topic) isNext(id peer.ID) bool { return contains(t.ringNeighbors(id), id) }
