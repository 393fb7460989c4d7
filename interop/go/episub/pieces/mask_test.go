package pieces

import (
	"bytes"
	"slices"
	"testing"
)

func TestMasksAreReadAsTheyWereWritten(t *testing.T) {
	for _, set := range [][]int{{}, {0}, {7}, {8}, {63, 64}, {0, 2, 511}} {
		var mask Mask
		for _, index := range set {
			mask = mask.or(one(index))
		}
		raw := mask.bytes()
		read, ok := readMask(append(raw, 0)[:min(len(raw)+1, maxPieces/8)]) // zeros at the end don't count
		if !ok || read != mask || !slices.Equal(read.Indices(), set) {
			t.Errorf("%v: %v", set, read.Indices())
		}
	}
	if raw := one(0).or(one(2)).or(one(9)).bytes(); !bytes.Equal(raw, []byte{0b101, 0b10}) {
		t.Errorf("%x", raw)
	}
	if _, ok := readMask(make([]byte, maxPieces/8+1)); ok {
		t.Error("no message has so many pieces")
	}
}

func TestSetsOfPieces(t *testing.T) {
	for _, count := range []int{0, 1, 63, 64, 65, 511, 512} {
		if all := first(count); len(all.Indices()) != count || all.beyond(count-1) || (count > 0 && !all.has(count-1)) {
			t.Errorf("the first %d are %v", count, all.Indices())
		}
	}
	if low := first(70).without(first(3)).lowest(62).Indices(); len(low) != 62 || low[0] != 3 || low[61] != 64 {
		t.Errorf("%v", low)
	}
	if first(maxPieces).beyond(maxPieces - 1) {
		t.Error("there is none after the last")
	}
}
