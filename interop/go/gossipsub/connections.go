package main

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"

	"episub-interop/internal/lines"
)

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
			lines.Emit("connected", lines.Fields{"peer": id.String()})
		} else {
			delete(connected, id.String())
			lines.Emit("disconnected", lines.Fields{"peer": id.String()})
		}
	}
	h.Network().Notify(&network.NotifyBundle{ConnectedF: tell, DisconnectedF: tell})
}
