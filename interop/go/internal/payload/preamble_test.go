package payload

import (
	"crypto/rand"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// preambleOf is one that the key's peer has signed.
func preambleOf(t *testing.T, key crypto.PrivKey) *pb.Preamble {
	author, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	made := &pb.Preamble{
		Id: []byte(author + "12345678"), Author: []byte(author), Seqno: []byte("12345678"),
		Size: proto.Uint32(100_000), PieceSize: proto.Uint32(8192), Root: make([]byte, 32),
	}
	if _, err := author.ExtractPublicKey(); err != nil {
		if made.Key, err = crypto.MarshalPublicKey(key.GetPublic()); err != nil {
			t.Fatal(err)
		}
	}
	if err := SignPreamble(key, "t", made); err != nil {
		t.Fatal(err)
	}
	return made
}

func newKey(t *testing.T, make func(io.Reader) (crypto.PrivKey, crypto.PubKey, error)) crypto.PrivKey {
	key, _, err := make(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestPreamblesOfTheseKeysAreAccepted(t *testing.T) {
	rsaKey := func(r io.Reader) (crypto.PrivKey, crypto.PubKey, error) { return crypto.GenerateRSAKeyPair(2048, r) }
	for i, make := range []func(io.Reader) (crypto.PrivKey, crypto.PubKey, error){
		crypto.GenerateEd25519Key, crypto.GenerateSecp256k1Key, rsaKey,
	} {
		made := preambleOf(t, newKey(t, make))
		if err := StrictSign.CheckPreamble("t", made); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		made.Root[0] ^= 1
		if err := StrictSign.CheckPreamble("t", made); err == nil || errors.Is(err, ErrKey) {
			t.Errorf("%d, forged: %v", i, err)
		}
	}
}

func TestOfOtherKeysNothingIsSaid(t *testing.T) {
	ecdsa := preambleOf(t, newKey(t, crypto.GenerateECDSAKeyPair))
	unreadable := proto.Clone(ecdsa).(*pb.Preamble)
	unreadable.Key = []byte("no key")
	for i, made := range []*pb.Preamble{ecdsa, unreadable} {
		if err := StrictSign.CheckPreamble("t", made); !errors.Is(err, ErrKey) {
			t.Errorf("%d: %v", i, err)
		}
	}
	another := preambleOf(t, newKey(t, crypto.GenerateECDSAKeyPair))
	another.Key, _ = crypto.MarshalPublicKey(newKey(t, crypto.GenerateEd25519Key).GetPublic())
	if err := StrictSign.CheckPreamble("t", another); err == nil || errors.Is(err, ErrKey) {
		t.Errorf("the key of another: %v", err)
	}
}

func TestASignatureHasOneForm(t *testing.T) {
	made := preambleOf(t, newKey(t, crypto.GenerateSecp256k1Key))
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(made.Signature, &parts); err != nil {
		t.Fatal(err)
	}
	order := new(big.Int).Add(new(big.Int).Lsh(halfOrder, 1), big.NewInt(1))
	parts.S.Sub(order, parts.S)
	made.Signature, _ = asn1.Marshal(parts)
	if StrictSign.CheckPreamble("t", made) == nil {
		t.Error("a signature that was turned over is accepted")
	}
}
