package main

import (
	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
)

// counts are the control messages that came and went, by name.
type counts struct {
	in, out map[string]int
}

func newCounts() counts { return counts{in: map[string]int{}, out: map[string]int{}} }

var oneof = (&pb.Control{}).ProtoReflect().Descriptor().Oneofs().ByName("message")

func (c *counts) note(into map[string]int, control *pb.Control) {
	field := control.ProtoReflect().WhichOneof(oneof)
	if field == nil {
		into["unknown"]++
		return
	}
	name := string(field.Name())
	if neighbor := control.GetNeighbor(); neighbor != nil {
		name += "_" + neighbor.GetRole().String()
	}
	into[name]++
}

func (c *counts) emit() { lines.Emit("counts", lines.Fields{"in": c.in, "out": c.out}) }
