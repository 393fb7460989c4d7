package pieces

import "math/bits"

const wordBits = 64

// Mask is a set of pieces of one message.
type Mask [maxPieces / wordBits]uint64

// first are the pieces 0 to count - 1.
func first(count int) Mask {
	var m Mask
	for i := range m {
		switch left := count - i*wordBits; {
		case left >= wordBits:
			m[i] = ^uint64(0)
		case left > 0:
			m[i] = 1<<left - 1
		}
	}
	return m
}

func one(index int) Mask {
	var m Mask
	m[index/wordBits] = 1 << (index % wordBits)
	return m
}

func (m Mask) has(index int) bool { return m[index/wordBits]>>(index%wordBits)&1 != 0 }
func (m Mask) empty() bool        { return m == Mask{} }

func (m Mask) and(other Mask) Mask {
	for i := range m {
		m[i] &= other[i]
	}
	return m
}

func (m Mask) or(other Mask) Mask {
	for i := range m {
		m[i] |= other[i]
	}
	return m
}

func (m Mask) without(other Mask) Mask {
	for i := range m {
		m[i] &^= other[i]
	}
	return m
}

// beyond tells whether there is a piece after this one.
func (m Mask) beyond(index int) bool { return !m.without(first(index + 1)).empty() }

// Indices are the pieces, the lowest first.
func (m Mask) Indices() []int {
	found := []int{}
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			found = append(found, i*wordBits+bits.TrailingZeros64(word))
		}
	}
	return found
}

// lowest are the first `count` pieces of the set.
func (m Mask) lowest(count int) Mask {
	found := m.Indices()
	var kept Mask
	for _, index := range found[:min(count, len(found))] {
		kept = kept.or(one(index))
	}
	return kept
}

// bytes is the mask as it goes over the wire, without zeros at its end.
func (m Mask) bytes() []byte {
	raw := []byte{}
	for _, index := range m.Indices() {
		for len(raw) <= index/8 {
			raw = append(raw, 0)
		}
		raw[index/8] |= 1 << (index % 8)
	}
	return raw
}

// readMask reads one from the wire; false if no message has so many pieces.
func readMask(raw []byte) (Mask, bool) {
	var m Mask
	if len(raw) > maxPieces/8 {
		return m, false
	}
	for i, octet := range raw {
		m[i/8] |= uint64(octet) << (i % 8 * 8)
	}
	return m, true
}
