package main

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
)

// Pieces of large messages: sent behind everything else.

func (p port) PushPiece(id peer.ID, piece *pb.Piece) {
	if other := p.remotes[id]; other != nil && other.out != nil {
		other.lane.Put(p.name, piece)
		p.sendPieces(id)
	}
}

func (p port) ForgetPieces(id peer.ID, message string) {
	if other := p.remotes[id]; other != nil {
		other.lane.Forget(p.name, message)
	}
}

func (p port) ForgetAllPieces(id peer.ID) {
	if other := p.remotes[id]; other != nil {
		other.lane.ForgetAll(p.name)
	}
}

func (p port) Refused(id peer.ID, reason string) {
	lines.Emit("refused", lines.Fields{"peer": id.String(), "reason": reason})
}

// sendPieces moves what waits in a peer's lane to its stream, as long as little else waits there. It is
// called again when something was written.
func (n *node) sendPieces(id peer.ID) {
	other := n.remotes[id]
	if other == nil || other.out == nil {
		return
	}
	other.out.wanting.Store(true) // before the look at the queues, as they empty meanwhile
	for !other.lane.Empty() && other.out.idle() {
		topic, piece := other.lane.Next()
		control := &pb.Control{Message: &pb.Control_Piece{Piece: piece}}
		n.counts.note(n.counts.out, control)
		control = n.faults.passed(control)
		n.send(id, &pb.Rpc{}, &pb.EpisubFrame{Topic: &topic, Control: []*pb.Control{control}})
	}
	other.out.wanting.Store(!other.lane.Empty())
}
