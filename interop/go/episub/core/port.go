// Package core is one node's part in one topic of /episub/1.0.0, made from docs/wire.md and
// proto/episub.proto: the overlay, and the trees in it. It does no input or output and reads no
// clock; a Port does that for it.
package core

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/pb"
)

// Port is what a topic needs of its node. Callbacks come one at a time, never from inside a call.
type Port interface {
	Now() time.Time
	// After calls f after a while, unless it is stopped before.
	After(d time.Duration, f func()) (stop func())
	// Connected tells whether a peer can be written to.
	Connected(id peer.ID) bool
	// Dial connects to a peer and calls f once, with whether that succeeded.
	Dial(id peer.ID, f func(up bool))
	// DialForOthers is Dial where only another node's message asks for it.
	DialForOthers(id peer.ID, f func(up bool))
	// Release: this topic has no use for the connection to a peer at the moment.
	Release(id peer.ID)
	// Group is what the peers of one owner probably have in common; "" where nothing is known.
	Group(id peer.ID) string
	// Ping measures a round trip and calls f once; 0 if there was no answer.
	Ping(id peer.ID, f func(rtt time.Duration))
	// Send queues control messages to a peer.
	Send(id peer.ID, controls ...*pb.Control)
	// Push queues a payload to a peer, false if there is no room.
	Push(id peer.ID, message *pb.Message, header *pb.Gossip) bool
	// PushPiece has a piece sent to a peer once nothing else waits for it.
	PushPiece(id peer.ID, piece *pb.Piece)
	// ForgetPieces: those of a message that wait for a peer are wanted no more.
	ForgetPieces(id peer.ID, message string)
	// ForgetAllPieces: nor are those of any message.
	ForgetAllPieces(id peer.ID)
	// Refused counts what isn't acted on; id is "" where that is no peer's fault.
	Refused(id peer.ID, reason string)
	// Info is what goes to others about a peer, this node itself included.
	Info(id peer.ID) *pb.PeerInfo
	// Learn keeps what others say of a peer; false if that is no peer.
	Learn(info *pb.PeerInfo) (peer.ID, bool)
	// Arriving tells whether a large message has begun to come in, and isn't validated.
	Arriving() bool
	// Subscriptions are the topics of this node.
	Subscriptions() []string
	// Deliver hands a new message to the application.
	Deliver(message *pb.Message)
	// Linked tells the neighbours after each change.
	Linked(ids []peer.ID)
}

func controlGetNodes(count int) *pb.Control {
	return &pb.Control{Message: &pb.Control_GetNodes{GetNodes: &pb.GetNodes{Count: unlessZero(count)}}}
}

func controlNodes(message *pb.Nodes) *pb.Control {
	return &pb.Control{Message: &pb.Control_Nodes_{Nodes_: message}}
}

func controlGetTopics() *pb.Control {
	return &pb.Control{Message: &pb.Control_GetTopics{GetTopics: &pb.GetTopics{}}}
}

func controlJoin(message *pb.Join) *pb.Control {
	return &pb.Control{Message: &pb.Control_Join{Join: message}}
}

func controlForwardJoin(message *pb.ForwardJoin) *pb.Control {
	return &pb.Control{Message: &pb.Control_ForwardJoin{ForwardJoin: message}}
}

func controlNeighbor(message *pb.Neighbor) *pb.Control {
	return &pb.Control{Message: &pb.Control_Neighbor{Neighbor: message}}
}

func controlLeave(message *pb.Leave) *pb.Control {
	return &pb.Control{Message: &pb.Control_Leave{Leave: message}}
}

func controlShuffle(message *pb.Shuffle) *pb.Control {
	return &pb.Control{Message: &pb.Control_Shuffle{Shuffle: message}}
}

func controlShuffleReply(message *pb.ShuffleReply) *pb.Control {
	return &pb.Control{Message: &pb.Control_ShuffleReply{ShuffleReply: message}}
}

func controlIHave(message *pb.IHave) *pb.Control {
	return &pb.Control{Message: &pb.Control_Ihave{Ihave: message}}
}

func controlPrune(message *pb.Prune) *pb.Control {
	return &pb.Control{Message: &pb.Control_Prune{Prune: message}}
}

func controlGraft(message *pb.Graft) *pb.Control {
	return &pb.Control{Message: &pb.Control_Graft{Graft: message}}
}

func controlRoot(message *pb.Root) *pb.Control {
	return &pb.Control{Message: &pb.Control_Root{Root: message}}
}

// Topics is a TOPICS.
func Topics(names []string) *pb.Control {
	names = names[:min(len(names), maxTopics)]
	return &pb.Control{Message: &pb.Control_Topics_{Topics_: &pb.Topics{Topics: names}}}
}

// Disconnect is a DISCONNECT.
func Disconnect(alive bool) *pb.Control {
	return &pb.Control{Message: &pb.Control_Disconnect{Disconnect: &pb.Disconnect{Alive: &alive}}}
}
