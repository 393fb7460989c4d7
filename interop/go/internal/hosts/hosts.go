// Package hosts makes the libp2p hosts of the peers.
package hosts

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	blankhost "github.com/libp2p/go-libp2p/p2p/host/blank"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// Transport makes a transport beside TCP.
type Transport func(crypto.PrivKey) (transport.Transport, error)

// NewKey makes an Ed25519 key: from the SHA-256 of the seed, or a random one if it is empty.
func NewKey(seed string) (crypto.PrivKey, error) {
	var source io.Reader = rand.Reader
	if seed != "" {
		digest := sha256.Sum256([]byte(seed))
		source = bytes.NewReader(digest[:])
	}
	key, _, err := crypto.GenerateEd25519Key(source)
	return key, err
}

// KeyOf makes the Ed25519 key of a seed of 32 bytes.
func KeyOf(seed []byte) (crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(seed))
	return key, err
}

// New makes a host of no more than TCP, Noise, Yamux and the transports named; it has no identify.
func New(key crypto.PrivKey, listen []string, more ...Transport) (host.Host, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	peers, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	if err := peers.AddPrivKey(id, key); err != nil {
		return nil, err
	}
	if err := peers.AddPubKey(id, key.GetPublic()); err != nil {
		return nil, err
	}
	bus := eventbus.NewBus()
	net, err := swarm.NewSwarm(id, peers, bus)
	if err != nil {
		return nil, err
	}
	for _, make := range append([]Transport{newTCP}, more...) {
		made, err := make(key)
		if err != nil {
			return nil, err
		}
		if err := net.AddTransport(made); err != nil {
			return nil, err
		}
	}
	for _, text := range listen {
		addr, err := ma.NewMultiaddr(text)
		if err != nil {
			return nil, err
		}
		if err := net.Listen(addr); err != nil {
			return nil, err
		}
	}
	return blankhost.NewBlankHost(net, blankhost.WithEventBus(bus)), nil
}

func newTCP(key crypto.PrivKey) (transport.Transport, error) {
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	security, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return nil, err
	}
	upgrade, err := upgrader.New(
		[]sec.SecureTransport{security}, muxers, nil, &network.NullResourceManager{}, nil)
	if err != nil {
		return nil, err
	}
	return tcp.NewTCPTransport(upgrade, nil, nil)
}
