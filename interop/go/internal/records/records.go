// Package records is about the signed peer records in PeerInfo: docs/wire.md, section 5.
package records

import (
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/record"
)

const (
	maxAddrs  = 32   // of one record
	maxRecord = 4096 // bytes
)

// Own is the signed peer record of the host, as in PeerInfo.signedPeerRecord.
func Own(h host.Host, key crypto.PrivKey) ([]byte, error) {
	info := peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}
	envelope, err := record.Seal(peer.PeerRecordFromAddrInfo(info), key)
	if err != nil {
		return nil, err
	}
	return envelope.Marshal()
}

// Read verifies a signed peer record as section 5 asks and keeps its addresses.
func Read(h host.Host, id peer.ID, signed []byte) bool {
	if len(signed) > maxRecord {
		return false
	}
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
	return Keep(h, envelope)
}

// Keep keeps the addresses of a record that was verified; false if it is older than the one that is kept.
func Keep(h host.Host, verified *record.Envelope) bool {
	book, ok := peerstore.GetCertifiedAddrBook(h.Peerstore())
	if !ok || verified == nil {
		return false
	}
	accepted, err := book.ConsumePeerRecord(verified, peerstore.PermanentAddrTTL)
	return accepted && err == nil
}

// Of is the signed record of a peer that is kept, from identify or from others; nil if there is none.
func Of(h host.Host, id peer.ID) []byte {
	book, ok := peerstore.GetCertifiedAddrBook(h.Peerstore())
	if !ok {
		return nil
	}
	envelope := book.GetPeerRecord(id)
	if envelope == nil {
		return nil
	}
	signed, err := envelope.Marshal()
	if err != nil {
		return nil
	}
	return signed
}
