package main

import (
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// faults are what tests do to the links of a node: a blocked peer is disconnected and refused; of a
// muted one, all that comes and goes is lost, which nothing reports. A node that lies sends pieces with
// a wrong byte.
type faults struct {
	blocked, muted map[peer.ID]bool
	lies           bool
}

func newFaults() faults {
	return faults{blocked: map[peer.ID]bool{}, muted: map[peer.ID]bool{}}
}

// fault carries out "block", "unblock", "mute" and "unmute".
func (n *node) fault(op string, id peer.ID) {
	switch op {
	case "block":
		n.faults.blocked[id] = true
		go func() { _ = n.host.Network().ClosePeer(id) }()
	case "unblock":
		delete(n.faults.blocked, id)
	case "mute":
		n.faults.muted[id] = true
	case "unmute":
		delete(n.faults.muted, id)
	}
}

// passed is the piece that goes out in place of one.
func (f faults) passed(piece *pb.Control) *pb.Control {
	if !f.lies {
		return piece
	}
	wrong := proto.Clone(piece).(*pb.Control)
	wrong.GetPiece().Data[0] ^= 1
	return wrong
}
