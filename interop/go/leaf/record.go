package main

import (
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/record"
)

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
