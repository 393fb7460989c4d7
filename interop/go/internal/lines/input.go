// Package lines is how a peer is talked to: flags, commands and events as interop/README.md has
// them, the commands and events as lines of JSON.
package lines

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a command: a payload of 1 MiB in base64 and what stands around it. Bytes.
const maxLine = 2 << 20

// List is a flag that may be repeated.
type List []string

func (l *List) String() string { return strings.Join(*l, ",") }

// Set takes one more value.
func (l *List) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// Command is one line of input.
type Command struct {
	Op    string `json:"op"`
	Topic string `json:"topic"`
	Data  []byte `json:"data"`
	Size  int    `json:"size"`
	Seed  string `json:"seed"`
	Addr  string `json:"addr"`
	Peer  string `json:"peer"`
}

// Payload is what the command says is to be published: its data, or else the SHA-256 of "seed/0",
// "seed/1", ..., cut to its size.
func (c Command) Payload() []byte {
	if c.Data != nil {
		return c.Data
	}
	data := make([]byte, 0, c.Size+sha256.Size)
	for i := 0; len(data) < c.Size; i++ {
		block := sha256.Sum256(fmt.Appendf(nil, "%s/%d", c.Seed, i))
		data = append(data, block[:]...)
	}
	return data[:c.Size]
}

// Commands hands over each command, to the end of the input; what fails is reported.
func Commands(from io.Reader, obey func(Command) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var c Command
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			err = obey(c)
		}
		if err != nil {
			Failed(c.Op, err)
		}
	}
	return lines.Err()
}
