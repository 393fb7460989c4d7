package main

import (
	"crypto/rand"
	"crypto/sha256"

	"bytes"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/record"
	"github.com/libp2p/go-libp2p/core/sec"
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

// newKey makes an Ed25519 key: from the SHA-256 of the seed, or a random one if it is empty.
func newKey(seed string) (crypto.PrivKey, error) {
	if seed == "" {
		key, _, err := crypto.GenerateEd25519Key(rand.Reader)
		return key, err
	}
	digest := sha256.Sum256([]byte(seed))
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(digest[:]))
	return key, err
}

// newHost makes a host of no more than TCP, Noise and Yamux, without identify.
func newHost(key crypto.PrivKey, listen []string) (host.Host, error) {
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
	return blankhost.NewBlankHost(net, blankhost.WithEventBus(bus)), nil
}

// ownRecord is the signed peer record of the host, as in PeerInfo.signedPeerRecord.
func ownRecord(h host.Host, key crypto.PrivKey) ([]byte, error) {
	info := peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}
	envelope, err := record.Seal(peer.PeerRecordFromAddrInfo(info), key)
	if err != nil {
		return nil, err
	}
	return envelope.Marshal()
}

// readRecord verifies a signed peer record as docs/wire.md section 5 asks and keeps its addresses.
func readRecord(h host.Host, id peer.ID, signed []byte) bool {
	envelope, untyped, err := record.ConsumeEnvelope(signed, peer.PeerRecordEnvelopeDomain)
	if err != nil {
		return false
	}
	found, ok := untyped.(*peer.PeerRecord)
	if !ok || found.PeerID != id || !id.MatchesPublicKey(envelope.PublicKey) {
		return false
	}
	if len(found.Addrs) == 0 || len(found.Addrs) > maxAddrs {
		return false
	}
	book, ok := peerstore.GetCertifiedAddrBook(h.Peerstore())
	if !ok {
		return false
	}
	accepted, err := book.ConsumePeerRecord(envelope, peerstore.ConnectedAddrTTL)
	return accepted && err == nil
}
