package main

import (
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/transport"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/quic-go/quic-go"
)

// newQUIC makes the transport of /quic-v1 addresses. What its keys protect lives as long as a
// process, and there is nobody on loopback to protect it from.
func newQUIC(key crypto.PrivKey) (transport.Transport, error) {
	sockets, err := quicreuse.NewConnManager(quic.StatelessResetKey{}, quic.TokenGeneratorKey{})
	if err != nil {
		return nil, err
	}
	return libp2pquic.NewTransport(key, sockets, nil, nil, nil)
}
