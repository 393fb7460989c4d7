package main

const replayWindow = 128

// window is the replay window of docs/wire.md section 3: the highest id, and which of the ids that
// end there were seen.
type window struct {
	highest uint64
	seen    [replayWindow]uint64 // by id modulo its size
}

// accepts tells whether a sequence id is new, and remembers it.
func (w *window) accepts(seq uint64) bool {
	slot := &w.seen[seq%replayWindow]
	if seq == 0 || *slot == seq || (w.highest >= replayWindow && seq <= w.highest-replayWindow) {
		return false
	}
	*slot = seq
	w.highest = max(w.highest, seq)
	return true
}
