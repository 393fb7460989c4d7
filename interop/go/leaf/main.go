// Command leaf is a second implementation of /episub/1.0.0, made from docs/wire.md and
// proto/episub.proto alone. It is a leaf: a few neighbours, no shuffles, no walks but JOINs.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"episub-interop/leaf/pb"

	"github.com/libp2p/go-libp2p/core/peer"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// command is a line of standard input.
type command struct {
	Op    string  `json:"op"`
	Topic string  `json:"topic"`
	Data  *string `json:"data"`
	Size  int     `json:"size"`
	Seed  string  `json:"seed"`
	Addr  string  `json:"addr"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var listen, dials list
	flag.Var(&listen, "listen", "multiaddress to listen on")
	flag.Var(&dials, "dial", "full multiaddress of a peer")
	topic := flag.String("topic", "", "the topic")
	seed := flag.String("key-seed", "", "text that the key is made from")
	flag.Parse()
	if *topic == "" {
		return errors.New("--topic is missing")
	}
	if len(listen) == 0 {
		listen = list{"/ip4/127.0.0.1/tcp/0"}
	}
	key, err := newKey(*seed)
	if err != nil {
		return err
	}
	h, err := newHost(key, listen)
	if err != nil {
		return err
	}
	record, err := ownRecord(h, key)
	if err != nil {
		return err
	}
	n := newNode(h, key, record, *topic)
	n.listen()
	go n.run()
	addrs := []string{}
	for _, addr := range h.Addrs() {
		addrs = append(addrs, fmt.Sprintf("%s/p2p/%s", addr, h.ID()))
	}
	emit("listening", map[string]any{"peer": h.ID().String(), "addrs": addrs, "versions": versions()})
	emit("subscribed", map[string]any{"topic": *topic})
	for _, addr := range dials {
		n.obey(command{Op: "dial", Addr: addr})
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4*maxRPC)
	for lines.Scan() {
		c := command{}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			emit("failed", map[string]any{"op": nil, "error": err.Error()})
			continue
		}
		n.obey(c)
	}
	left := make(chan struct{})
	n.do(func() { n.leave(); close(left) })
	<-left
	time.Sleep(lazyInterval) // the goodbyes are on their way; libp2p can't tell when they are out
	close(n.done)
	return h.Close()
}

// obey carries out one command; what fails is told.
func (n *node) obey(c command) {
	var err error
	switch c.Op {
	case "publish":
		err = n.obeyPublish(c)
	case "dial":
		go func() {
			if err := n.dial(c.Addr); err != nil {
				emit("failed", map[string]any{"op": c.Op, "error": err.Error()})
			}
		}()
	default:
		err = fmt.Errorf("no command is called %q", c.Op)
	}
	if err != nil {
		emit("failed", map[string]any{"op": c.Op, "error": err.Error()})
	}
}

func (n *node) obeyPublish(c command) error {
	data := payload(c.Size, c.Seed)
	if c.Data != nil {
		decoded, err := base64.StdEncoding.DecodeString(*c.Data)
		if err != nil {
			return err
		}
		data = decoded
	}
	message, err := newMessage(n.key, c.Topic, data)
	if err != nil {
		return err
	}
	n.do(func() {
		n.publish(message)
		emit("published", digest(map[string]any{"topic": c.Topic}, data))
	})
	return nil
}

func (n *node) dial(addr string) error {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), streamTimeout)
	defer cancel()
	return n.host.Connect(ctx, *info)
}

// payload is SHA-256 of "seed/0", "seed/1", ..., cut to size bytes.
func payload(size int, seed string) []byte {
	data := []byte{}
	for i := 0; len(data) < size; i++ {
		block := sha256.Sum256(fmt.Appendf(nil, "%s/%d", seed, i))
		data = append(data, block[:]...)
	}
	return data[:size]
}

func emitDelivery(message *pb.Message) {
	emit("delivery", digest(map[string]any{
		"topic": message.GetTopic(),
		"from":  peer.ID(message.From).String(),
		"id":    hex.EncodeToString([]byte(messageID(message))),
	}, message.Data))
}

func digest(fields map[string]any, data []byte) map[string]any {
	hash := sha256.Sum256(data)
	fields["size"], fields["sha256"] = len(data), hex.EncodeToString(hash[:])
	return fields
}

// emit writes one event as one line.
func emit(event string, fields map[string]any) {
	fields["event"] = event
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1)
	}
}

// versions are those of the lock file.
func versions() map[string]string {
	found := map[string]string{}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/libp2p/go-libp2p", "google.golang.org/protobuf":
			found[module.Path[strings.LastIndex(module.Path, "/")+1:]] = strings.TrimPrefix(module.Version, "v")
		}
	}
	return found
}
