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

// published is the tag of the field publish, with which an RPC begins that carries messages.
const published = 0x12

// Read returns the next RPC of a stream, without its length. Of one that carries messages it calls begun
// with the length, unless that is nil, before it reads the rest.
func Read(reader *bufio.Reader, begun func(size int)) ([]byte, error) {
	size, err := binary.ReadUvarint(reader)
	if err != nil {
		return nil, err
	}
	if size > MaxSize {
		return nil, fmt.Errorf("an RPC of %d bytes; at most %d", size, MaxSize)
	}
	if begun != nil && size > 0 {
		tag, err := reader.Peek(1)
		if err != nil {
			return nil, err
		}
		if tag[0] == published {
			begun(int(size))
		}
	}
	raw := make([]byte, size)
	_, err = io.ReadFull(reader, raw)
	return raw, err
}
