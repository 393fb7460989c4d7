package rpcs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func TestOnlyMessagesAreSaidToComeIn(t *testing.T) {
	topic := "t"
	stream := []byte{}
	for _, rpc := range []*pb.Rpc{
		{},
		{Control: &pb.ControlMessage{}},
		{Publish: []*pb.Message{{Topic: &topic, Data: make([]byte, 1000)}}, Control: &pb.ControlMessage{}},
	} {
		raw, err := proto.Marshal(rpc)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(binary.AppendUvarint(stream, uint64(len(raw))), raw...)
	}
	reader, sizes := bufio.NewReader(bytes.NewReader(stream)), []int{}
	for range 3 {
		if _, err := Read(reader, func(size int) { sizes = append(sizes, size) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(sizes) != 1 || sizes[0] < 1000 {
		t.Errorf("%v", sizes)
	}
}
