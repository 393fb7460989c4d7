package plans

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"episub-interop/internal/hosts"
)

const (
	port       = 9000
	connecting = time.Minute // that a connection may take: the other may start later
	attempt    = 10 * time.Second
	pause      = 200 * time.Millisecond // between two attempts
)

// Router is what a script acts on.
type Router interface {
	// Init starts it, with GossipSub's parameters.
	Init(params json.RawMessage) error
	Subscribe(topic string) error
	Publish(topic string, data []byte) error
	// Delay has the topic's messages validated for so long.
	Delay(topic string, each time.Duration) error
}

// Main runs the script in the file at path to its end. The host's name is the node's number: node7.
func Main(path string, make func(host.Host, crypto.PrivKey) Router) error {
	start := time.Now()
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	var number int
	if _, err := fmt.Sscanf(name, "node%d", &number); err != nil {
		return fmt.Errorf("the host's name must be like node7, not %q", name)
	}
	script, err := load(path)
	if err != nil {
		return err
	}
	key, id, err := identity(number)
	if err != nil {
		return err
	}
	log("PeerID", map[string]any{"id": id.String(), "node_id": number})
	own, err := address(number)
	if err != nil {
		return err
	}
	h, err := hosts.Open(key, own)
	if err != nil {
		return err
	}
	n := &node{number: number, start: start, host: h, router: make(h, key)}
	for _, step := range script {
		if err := n.obey(&step); err != nil {
			return err
		}
	}
	return nil
}

type node struct {
	number int
	start  time.Time
	host   host.Host
	router Router
}

func (n *node) obey(step *Instruction) error {
	switch step.Type {
	case "initGossipSub":
		return n.router.Init(step.GossipSubParams)
	case "connect":
		for _, other := range step.ConnectTo {
			if err := n.connect(other); err != nil {
				return err
			}
		}
	case "ifNodeIDEquals":
		if step.NodeID == n.number {
			return n.obey(step.Instruction)
		}
	case "waitUntil":
		time.Sleep(time.Until(n.start.Add(seconds(step.ElapsedSeconds))))
	case "publish":
		data := make([]byte, step.MessageSizeBytes)
		binary.BigEndian.PutUint64(data, step.MessageID)
		id := strconv.FormatUint(step.MessageID, 10)
		log("Published Message", map[string]any{"id": id, "topic": step.TopicID})
		return n.router.Publish(step.TopicID, data)
	case "subscribeToTopic":
		return n.router.Subscribe(step.TopicID)
	case "setTopicValidationDelay":
		return n.router.Delay(step.TopicID, seconds(step.DelaySeconds))
	}
	return nil
}

// connect dials another node, which may not listen yet.
func (n *node) connect(other int) error {
	_, id, err := identity(other)
	if err != nil {
		return err
	}
	last := time.Now().Add(connecting)
	for {
		if err = n.dial(other, id); err == nil || time.Now().After(last) {
			break
		}
		time.Sleep(pause)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "no connection to node%d: %v\n", other, err)
	}
	return nil
}

func (n *node) dial(other int, id peer.ID) error {
	addr, err := address(other)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	return n.host.Connect(ctx, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{ma.StringCast(addr)}})
}

// identity is the key of a node, its number in little-endian, and the peer id that belongs to it.
func identity(number int) (crypto.PrivKey, peer.ID, error) {
	seed := binary.LittleEndian.AppendUint64(nil, uint64(number))
	key, err := hosts.KeyOf(append(seed, make([]byte, 24)...))
	if err != nil {
		return nil, "", err
	}
	id, err := peer.IDFromPrivateKey(key)
	return key, id, err
}

// address is where a node listens.
func address(number int) (string, error) {
	found, err := net.LookupHost(fmt.Sprintf("node%d", number))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/ip4/%s/tcp/%d", found[0], port), nil
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
