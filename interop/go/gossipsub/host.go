package main

import (
	"strings"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"

	"episub-interop/internal/hosts"
)

// host is a whole one; for QUIC, it is one of few parts with identify.
func (a *arguments) host(key crypto.PrivKey) (host.Host, error) {
	if !strings.Contains(strings.Join(a.listen, ","), "/quic-v1") {
		return hosts.Full(key, a.listen)
	}
	h, err := hosts.New(key, a.listen, newQUIC)
	if err != nil {
		return nil, err
	}
	service, err := identify.NewIDService(h)
	if err != nil {
		return nil, err
	}
	service.Start()
	return h, nil
}
