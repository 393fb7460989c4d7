package hosts

import (
	"time"

	"github.com/libp2p/go-libp2p"
	coreconnmgr "github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
)

// The connection manager has to prune from so few connections on, once they are so old.
const (
	lowWater  = 32
	highWater = 64
	grace     = 20 * time.Second
)

// Full makes a host as applications have it: with identify, a connection manager and libp2p's default
// limits on resources.
func Full(key crypto.PrivKey, listen []string) (host.Host, error) {
	manager, err := connmgr.NewConnManager(lowWater, highWater, connmgr.WithGracePeriod(grace))
	if err != nil {
		return nil, err
	}
	return withIdentify(key, listen, libp2p.ConnectionManager(manager))
}

// Open makes one that keeps all connections.
func Open(key crypto.PrivKey, listen string) (host.Host, error) {
	return withIdentify(key, []string{listen},
		libp2p.ConnectionManager(coreconnmgr.NullConnMgr{}),
		libp2p.ResourceManager(&network.NullResourceManager{}))
}

func withIdentify(key crypto.PrivKey, listen []string, more ...libp2p.Option) (host.Host, error) {
	return libp2p.New(append(more,
		libp2p.Identity(key),
		libp2p.ListenAddrStrings(listen...),
		libp2p.Transport(tcp.NewTCPTransport),
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		libp2p.DisableRelay(),
	)...)
}
