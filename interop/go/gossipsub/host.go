package main

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
	blankhost "github.com/libp2p/go-libp2p/p2p/host/blank"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// newHost makes a host of TCP, Noise, Yamux and identify; its key is made of the seed, if any.
func newHost(seed string, listen []string) (host.Host, error) {
	var source io.Reader = rand.Reader
	if seed != "" {
		digest := sha256.Sum256([]byte(seed))
		source = bytes.NewReader(digest[:])
	}
	key, _, err := crypto.GenerateEd25519Key(source)
	if err != nil {
		return nil, err
	}
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
	transport, err := tcp.NewTCPTransport(upgrade, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := net.AddTransport(transport); err != nil {
		return nil, err
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
	h := blankhost.NewBlankHost(net, blankhost.WithEventBus(bus))
	service, err := identify.NewIDService(h)
	if err != nil {
		return nil, err
	}
	service.Start()
	return h, nil
}
