// Package rpcs reads gossipsub's RPCs from streams.
package rpcs

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// MaxSize is the largest RPC, in bytes.
const MaxSize = 1 << 20

// Read returns the next RPC of a stream, without its length.
func Read(reader *bufio.Reader) ([]byte, error) {
	size, err := binary.ReadUvarint(reader)
	if err != nil {
		return nil, err
	}
	if size > MaxSize {
		return nil, fmt.Errorf("an RPC of %d bytes; at most %d", size, MaxSize)
	}
	raw := make([]byte, size)
	_, err = io.ReadFull(reader, raw)
	return raw, err
}
