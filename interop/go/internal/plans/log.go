package plans

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

var output sync.Mutex

// log prints one line as the harness reads it.
func log(text string, fields map[string]any) {
	fields["time"], fields["msg"] = time.Now().UTC().Format(time.RFC3339Nano), text
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1)
	}
}

// Received logs a copy of a message, the first one or another.
func Received(from peer.ID, topic string, data []byte) {
	if len(data) >= minSize {
		number := strconv.FormatUint(binary.BigEndian.Uint64(data), 10)
		log("Received Message", map[string]any{"id": number, "topic": topic, "from": from.String()})
	}
}

// MessageID is the message's number, as it stands in the data; what is too short is its own id.
func MessageID(data []byte) string { return string(data[:min(len(data), minSize)]) }
