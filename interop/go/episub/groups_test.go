package main

import (
	"testing"

	"github.com/multiformats/go-multiaddr"
)

func TestAddressPrefix(t *testing.T) {
	relayed := "/ip4/8.8.8.8/tcp/1/p2p/12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X/p2p-circuit"
	for prefix, addresses := range map[string][]string{
		"":               {"/ip4/127.0.0.1/tcp/1", "/ip4/192.168.1.1/tcp/1", "/dns4/example.com/tcp/1", relayed},
		"8.8.4.0/24":     {"/ip4/10.0.0.1/tcp/1", "/ip4/8.8.4.4/udp/1/quic-v1", "/ip4/1.1.1.1/tcp/1"},
		"2001:4860::/48": {"/ip6/fe80::1/tcp/1", "/ip6/2001:4860:0:1::2/tcp/1"},
	} {
		parsed := []multiaddr.Multiaddr{}
		for _, text := range addresses {
			parsed = append(parsed, multiaddr.StringCast(text))
		}
		if found := addressPrefix(parsed); found != prefix {
			t.Errorf("%q, not %q, of %v", found, prefix, addresses)
		}
	}
}
