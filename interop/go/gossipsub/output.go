package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime/debug"
	"sync"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
)

type fields map[string]any

var output sync.Mutex

// emit prints one event as one line. It ends the process when nobody reads it any more.
func emit(event string, more fields) {
	more["event"] = event
	line, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1)
	}
}

// digest adds the size and hash of a payload.
func digest(data []byte, more fields) fields {
	sum := sha256.Sum256(data)
	more["size"] = len(data)
	more["sha256"] = hex.EncodeToString(sum[:])
	return more
}

func tellListening(h host.Host) {
	var addrs []string
	for _, addr := range h.Addrs() {
		addrs = append(addrs, addr.String()+"/p2p/"+h.ID().String())
	}
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/libp2p/go-libp2p":
				versions["go-libp2p"] = module.Version
			case "github.com/libp2p/go-libp2p-pubsub":
				versions["go-libp2p-pubsub"] = module.Version
			}
		}
	}
	emit("listening", fields{"peer": h.ID().String(), "addrs": addrs, "versions": versions})
}

// tellConnections tells of each peer once, however many connections it has.
func tellConnections(h host.Host) {
	var lock sync.Mutex
	connected := map[string]bool{}
	tell := func(net network.Network, conn network.Conn) {
		lock.Lock()
		defer lock.Unlock()
		id := conn.RemotePeer()
		now := net.Connectedness(id) == network.Connected
		if now == connected[id.String()] {
			return
		}
		if now {
			connected[id.String()] = true
			emit("connected", fields{"peer": id.String()})
		} else {
			delete(connected, id.String())
			emit("disconnected", fields{"peer": id.String()})
		}
	}
	h.Network().Notify(&network.NotifyBundle{ConnectedF: tell, DisconnectedF: tell})
}
