package pieces

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

const (
	maxTurns     = 256                // messages of which pieces may wait for one peer
	maxLaneBytes = maxUnfinishedBytes // of them: as much as may be under way
)

// Lane is what waits for one peer behind everything else. It holds the pieces, since their message may
// be forgotten before a slow peer has taken them.
type Lane struct {
	turns []*turn
	size  int // bytes
}

// turn is one message of one topic: messages take turns, piece by piece.
type turn struct {
	topic   string
	waiting []*pb.Piece // of one message, at least one
}

func (t *turn) is(topic, message string) bool {
	return t.topic == topic && string(t.waiting[0].Id) == message
}

// Put adds a piece; one that waits already is sent once. What finds no room is asked for again.
func (l *Lane) Put(topic string, piece *pb.Piece) {
	size := proto.Size(piece)
	if l.size+size > maxLaneBytes {
		return
	}
	at := slices.IndexFunc(l.turns, func(t *turn) bool { return t.is(topic, string(piece.Id)) })
	switch {
	case at < 0 && len(l.turns) == maxTurns:
		return
	case at < 0:
		l.turns = append(l.turns, &turn{topic, []*pb.Piece{piece}})
	case slices.ContainsFunc(l.turns[at].waiting, func(p *pb.Piece) bool { return p.GetIndex() == piece.GetIndex() }):
		return
	default:
		l.turns[at].waiting = append(l.turns[at].waiting, piece)
	}
	l.size += size
}

// Empty tells whether nothing waits.
func (l *Lane) Empty() bool { return len(l.turns) == 0 }

// Next takes out the piece whose turn it is; the lane must not be empty.
func (l *Lane) Next() (topic string, piece *pb.Piece) {
	t := l.turns[0]
	l.turns = l.turns[1:]
	piece = t.waiting[0]
	if t.waiting = t.waiting[1:]; len(t.waiting) > 0 {
		l.turns = append(l.turns, t)
	}
	l.size -= proto.Size(piece)
	return t.topic, piece
}

// Forget takes out the pieces of a message.
func (l *Lane) Forget(topic, message string) {
	l.forget(func(t *turn) bool { return t.is(topic, message) })
}

// ForgetAll takes out the pieces of all messages of a topic.
func (l *Lane) ForgetAll(topic string) {
	l.forget(func(t *turn) bool { return t.topic == topic })
}

func (l *Lane) forget(unwanted func(*turn) bool) {
	l.turns = slices.DeleteFunc(l.turns, func(t *turn) bool {
		gone := unwanted(t)
		if gone {
			for _, piece := range t.waiting {
				l.size -= proto.Size(piece)
			}
		}
		return gone
	})
}
