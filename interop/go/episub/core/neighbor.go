package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// NEIGHBOR in its four roles, and DISCONNECT: who is asked for a link, and who that asks gets one.

// say sends a NEIGHBOR about the link to a peer.
func (t *Topic) say(id peer.ID, role pb.Neighbor_Role, kind pb.Neighbor_Kind) {
	t.port.Send(id, controlNeighbor(t.numbers(role, kind)))
}

// query asks a neighbour for a sign of life, and perhaps for its list.
func (t *Topic) query(l *link, numbersOnly bool) {
	message := t.numbers(pb.Neighbor_QUERY, l.kind)
	if numbersOnly {
		message.NumbersOnly = proto.Bool(true)
	}
	t.port.Send(l.id, controlNeighbor(message))
}

// list answers a query.
func (t *Topic) list(l *link, query *pb.Neighbor) {
	message := t.numbers(pb.Neighbor_LIST, l.kind)
	if query.GetNumbersOnly() {
		message.NumbersOnly = query.NumbersOnly
	} else {
		message.Peers = t.infos(t.neighbors(l.id))
	}
	t.port.Send(l.id, controlNeighbor(message))
}

func (t *Topic) numbers(role pb.Neighbor_Role, kind pb.Neighbor_Kind) *pb.Neighbor {
	return &pb.Neighbor{
		Role: &role, Kind: &kind,
		Links:       proto.Uint32(uint32(len(t.links))),
		RandomLinks: proto.Uint32(uint32(t.count(random))),
	}
}

// admit gives a peer that asked for it a link.
func (t *Topic) admit(id peer.ID, kind pb.Neighbor_Kind, said *pb.Neighbor) {
	t.addLink(id, kind, said)
	t.say(id, pb.Neighbor_ACCEPT, kind)
	t.linked(id)
}

func (t *Topic) reject(id peer.ID) {
	t.port.Send(id, Disconnect(true))
	t.release(id)
}

// Asking

// ask has a peer asked for a link, over a new connection if need be.
func (t *Topic) ask(id peer.ID, send func()) {
	if t.requests[id] != nil || t.link(id) != nil {
		return
	}
	request := &timer{t: t, f: func() { t.onRefusal(id) }}
	t.requests[id] = request
	t.dial(id, func(up bool) {
		switch {
		case t.requests[id] != request:
		case !up:
			t.onRefusal(id)
		default:
			send()
			request.set(t.port.Now().Add(t.withDialTime(requestTimeout)))
		}
	})
}

// request asks a peer by name.
func (t *Topic) request(id peer.ID, kind pb.Neighbor_Kind) {
	t.ask(id, func() {
		if t.isNext(id) {
			kind = random
		}
		t.say(id, pb.Neighbor_REQUEST, kind)
	})
}

// hasRefused: it isn't asked then.
func (t *Topic) hasRefused(id peer.ID) bool {
	at, refused := t.refused.of[id]
	wait := refusedBackoff
	if t.isInNeed() {
		wait = refusedInNeed
	}
	return refused && t.port.Now().Sub(at) < wait
}

// onRefusal: DISCONNECT to a request of ours, no answer in time, or the peer can't be reached.
func (t *Topic) onRefusal(id peer.ID) {
	request := t.requests[id]
	if request == nil {
		return
	}
	request.cancel()
	delete(t.requests, id)
	t.refused.put(id, t.port.Now())
	t.onRingRefusal(id)
	if !t.joining.asked.has(id) {
		t.release(id)
	}
	if t.isInNeed() && !t.joining.active {
		t.grow()
		t.rejoin()
	}
}

// onAccept: it counts from a peer that was asked, and, while a JOIN of ours is open, until C_rand links
// stand.
func (t *Topic) onAccept(from peer.ID, known *link, message *pb.Neighbor) {
	joins := t.port.Now().Before(t.joining.openUntil) && t.isInNeed()
	hasRoom := func() bool { return len(t.links) < activeBound || t.makeRoom(from, false) }
	switch {
	case known != nil:
		t.note(known, message)
	case t.requests[from] != nil && hasRoom(), joins:
		t.addLink(from, message.GetKind(), message)
		t.linked(from)
	default:
		t.reject(from)
	}
}

// Growing

func (t *Topic) growRound() {
	t.grow()
	if t.isInNeed() {
		t.growing.start()
	} else if !t.isFull() {
		t.growing.next()
	}
	t.rejoin()
}

// grow asks as many passive peers as links are missing, for near ones the nearest.
func (t *Topic) grow() {
	// Rings find random links, but where one peer has two places.
	randomMissing := min(randomLinks-t.count(random), t.count(near)-nearLinks)
	missing := max(activeSize-len(t.links), randomMissing) - len(t.requests)
	if missing <= 0 {
		return
	}
	peers := slices.DeleteFunc(t.sample(t.passive.ids(), passiveSize), func(id peer.ID) bool {
		return t.requests[id] != nil || t.hasRefused(id)
	})
	kind := random
	if randomMissing <= 0 {
		kind = near
		slices.SortStableFunc(peers, func(a, b peer.ID) int {
			return cmp.Compare(farness(t.passive.rtt(a)), farness(t.passive.rtt(b)))
		})
	}
	for _, id := range peers[:min(missing, len(peers))] {
		t.request(id, kind)
	}
}

// farness puts round trips that were not measured last.
func farness(rtt *roundTrip) time.Duration {
	if rtt == nil {
		return time.Hour
	}
	return rtt.mean
}

// replaceLink replaces a link that is gone at once, and again after short periods.
func (t *Topic) replaceLink(id peer.ID) {
	t.onRingLost(id)
	t.grow()
	t.growing.start()
	t.probes.hasten()
	t.rejoin()
}

// rejoin starts a join where nothing else may bring neighbours.
func (t *Topic) rejoin() {
	if len(t.links) == 0 && len(t.requests) == 0 {
		t.join()
	}
}

// Answering

func (t *Topic) onNeighbor(from peer.ID, message *pb.Neighbor) {
	bad := message.GetLinks() > maxLinks || message.GetRandomLinks() > message.GetLinks()
	if message.Role == nil || message.Kind == nil || bad {
		return
	}
	known := t.link(from)
	switch message.GetRole() {
	case pb.Neighbor_REQUEST:
		t.onRequest(from, known, message)
	case pb.Neighbor_ACCEPT:
		t.onAccept(from, known, message)
	case pb.Neighbor_QUERY:
		switch {
		case known != nil:
			t.note(known, message)
			t.list(known, message)
		case !t.isFull():
			t.admit(from, message.GetKind(), message)
		default:
			t.reject(from)
		}
	case pb.Neighbor_LIST:
		if known != nil {
			t.note(known, message)
			if message.GetNumbersOnly() {
				return
			}
			for _, id := range known.peers {
				if len(t.passive) < passiveSize {
					t.passive.add(t, id, from, nil)
				}
			}
		}
	}
}

// onRequest: room, need or nearness decide, in this order.
func (t *Topic) onRequest(from peer.ID, known *link, message *pb.Neighbor) {
	inNeed := message.GetLinks() < randomLinks ||
		(message.GetKind() == random && message.GetRandomLinks() < randomLinks)
	mayBeNear := !t.isFull() && !t.isNext(from)
	switch {
	case known != nil:
		t.note(known, message)
		t.say(from, pb.Neighbor_ACCEPT, known.kind)
	case t.makeRoom(from, inNeed):
		// A near link gets no room that our random ones need.
		needed := t.count(random) < randomLinks && t.count(near) >= nearLinks
		kind := random
		if mayBeNear && message.GetKind() == near && !needed {
			kind = near
		}
		t.admit(from, kind, message)
	case t.measuring[from] == nil && len(t.measuring) >= maxMeasuring:
		t.reject(from)
	default:
		measuring := t.measuring[from] != nil
		t.measuring[from] = message // one answer, to the last of its requests
		if !measuring {
			t.measure(from)
		}
	}
}

// onRequestMeasured: a peer that asked gets the place of a farther neighbour, or is rejected.
func (t *Topic) onRequestMeasured(from peer.ID, rtt time.Duration) {
	message := t.measuring[from]
	delete(t.measuring, from)
	if message == nil || t.link(from) != nil {
		return
	}
	if rtt > 0 && !t.isFull() {
		t.onRequest(from, nil, message)
		return
	}
	victim := t.farther(rtt)
	if victim == nil {
		t.reject(from)
		return
	}
	t.evict(victim.id)
	t.admit(from, near, message)
	t.probes.hasten()
}

func (t *Topic) onDisconnect(from peer.ID, message *pb.Disconnect) {
	if !message.GetAlive() {
		t.passive.remove(from)
		t.search.lost.take(from)
	}
	was := t.dropLink(from, false, message.GetAlive())
	t.onRefusal(from)
	if was {
		t.refused.put(from, t.port.Now())
		t.replaceLink(from)
	}
}
