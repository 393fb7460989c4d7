package main

import (
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Bits of the prefixes that addresses of one owner are likely to share: docs/wire.md, section 5.
const (
	prefixV4 = 24
	prefixV6 = 48
)

// Group is the address prefix of a peer: where it is connected from counts more than where it says
// that it is.
func (p port) Group(id peer.ID) string {
	seen := []multiaddr.Multiaddr{}
	for _, conn := range p.host.Network().ConnsToPeer(id) {
		seen = append(seen, conn.RemoteMultiaddr())
	}
	return addressPrefix(append(seen, p.host.Peerstore().Addrs(id)...))
}

// addressPrefix is the network of the first public IP address; "" where there is none.
func addressPrefix(addresses []multiaddr.Multiaddr) string {
	for _, address := range addresses {
		if _, err := address.ValueForProtocol(multiaddr.P_CIRCUIT); err == nil {
			continue // it is the relay's
		}
		ip, err := manet.ToIP(address)
		if err != nil || !manet.IsPublicAddr(address) {
			continue
		}
		found, _ := netip.AddrFromSlice(ip)
		bits := prefixV4
		if found = found.Unmap(); !found.Is4() {
			bits = prefixV6
		}
		if prefix, err := found.Prefix(bits); err == nil {
			return prefix.String()
		}
	}
	return ""
}
