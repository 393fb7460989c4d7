package pieces

// maxTurns are the messages of which pieces may wait for one peer.
const maxTurns = 256

// Lane is what waits for one peer behind everything else. It names pieces and holds none of them.
type Lane struct {
	turns []*turn
}

// turn is one message of one topic: messages take turns, piece by piece.
type turn struct {
	topic, message string
	waiting        Mask
}

// Put adds pieces; one that waits already is sent once. What finds no room is asked for again.
func (l *Lane) Put(topic, message string, which Mask) {
	for _, t := range l.turns {
		if t.topic == topic && t.message == message {
			t.waiting = t.waiting.or(which)
			return
		}
	}
	if len(l.turns) < maxTurns && !which.empty() {
		l.turns = append(l.turns, &turn{topic, message, which})
	}
}

// Empty tells whether nothing waits.
func (l *Lane) Empty() bool { return len(l.turns) == 0 }

// Next takes out the piece whose turn it is; the lane must not be empty.
func (l *Lane) Next() (topic, message string, index int) {
	t := l.turns[0]
	l.turns = l.turns[1:]
	index = t.waiting.Indices()[0]
	if t.waiting = t.waiting.without(one(index)); !t.waiting.empty() {
		l.turns = append(l.turns, t)
	}
	return t.topic, t.message, index
}

// Forget takes out the pieces of a message.
func (l *Lane) Forget(topic, message string) {
	kept := []*turn{}
	for _, t := range l.turns {
		if t.topic != topic || t.message != message {
			kept = append(kept, t)
		}
	}
	l.turns = kept
}
