package main

import (
	"crypto/sha256"
	"encoding/binary"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
)

// messageIDs are functions of the content alone. "ethereum" is that of the Altair specification for
// data that isn't Snappy's: the domain MESSAGE_DOMAIN_INVALID_SNAPPY, the topic and the data.
var messageIDs = map[string]func(*pb.Message) string{
	"data": func(m *pb.Message) string {
		sum := sha256.Sum256(m.GetData())
		return string(sum[:])
	},
	"ethereum": func(m *pb.Message) string {
		topic := m.GetTopic()
		text := make([]byte, 4, 12+len(topic)+len(m.GetData()))
		text = binary.LittleEndian.AppendUint64(text, uint64(len(topic)))
		text = append(append(text, topic...), m.GetData()...)
		sum := sha256.Sum256(text)
		return string(sum[:20])
	},
}
