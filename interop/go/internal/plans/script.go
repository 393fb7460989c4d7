// Package plans runs the scripts of libp2p's test-plans, gossipsub-interop: its
// test-specs/implementation.md.
package plans

import (
	"encoding/json"
	"fmt"
	"os"
)

// minSize are the bytes of a message's number, with which its data begins.
const minSize = 8

// Instruction is one step of a script. Type says which of the fields it has.
type Instruction struct {
	Type             string          `json:"type"`
	GossipSubParams  json.RawMessage `json:"gossipSubParams"`
	ConnectTo        []int           `json:"connectTo"`
	NodeID           int             `json:"nodeID"`
	Instruction      *Instruction    `json:"instruction"`
	ElapsedSeconds   float64         `json:"elapsedSeconds"`
	MessageID        uint64          `json:"messageID"`
	MessageSizeBytes int             `json:"messageSizeBytes"`
	TopicID          string          `json:"topicID"`
	Partial          bool            `json:"partial"`
	DelaySeconds     float64         `json:"delaySeconds"`
}

// load reads the script in a params.json.
func load(path string) ([]Instruction, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var params struct {
		Script []Instruction `json:"script"`
	}
	if err := json.Unmarshal(raw, &params); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, step := range params.Script {
		if err := step.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return params.Script, nil
}

// check returns an error for what can't be run.
func (i *Instruction) check() error {
	switch i.Type {
	case "initGossipSub", "connect", "waitUntil", "setTopicValidationDelay":
	case "ifNodeIDEquals":
		if i.Instruction == nil {
			return fmt.Errorf("%s has no instruction", i.Type)
		}
		return i.Instruction.check()
	case "publish":
		if i.MessageSizeBytes < minSize {
			return fmt.Errorf("a message has at least the %d bytes of its id", minSize)
		}
	case "subscribeToTopic":
		if i.Partial {
			return fmt.Errorf("partial messages are not implemented")
		}
	default:
		return fmt.Errorf("the instruction %q is not implemented", i.Type)
	}
	return nil
}
