package payload

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	keys "github.com/libp2p/go-libp2p/core/crypto/pb"
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

// rsaAuthor is an RSA key, also one that go-libp2p would not make or read.
type rsaAuthor struct {
	*rsa.PrivateKey
	t *testing.T
}

func (a rsaAuthor) key() []byte {
	data, err := x509.MarshalPKIXPublicKey(&a.PublicKey)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := proto.Marshal(&keys.PublicKey{Type: keys.KeyType_RSA.Enum(), Data: data})
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

// preamble is signed by the author, whose peer id is the hash of its key.
func (a rsaAuthor) preamble() *pb.Preamble {
	hash := sha256.Sum256(a.key())
	made := preambleOf(a.t, newKey(a.t, crypto.GenerateEd25519Key))
	made.Author = append([]byte{0x12, 0x20}, hash[:]...)
	made.Id = []byte(string(made.Author) + string(made.Seqno))
	made.Key = a.key()
	return made
}

func TestRSAKeysThatOthersDoNotTakeSignNothing(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	usual, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	exponents := []*rsa.PrivateKey{}
	for _, exponent := range []int{1, 65536, mostExponent + 2} {
		other := *usual
		other.E = exponent
		exponents = append(exponents, &other)
	}
	even := *usual
	even.N = new(big.Int).Add(usual.N, big.NewInt(1))
	for i, key := range append(exponents, small, &even) {
		if err := StrictSign.CheckPreamble("t", (rsaAuthor{key, t}).preamble()); !errors.Is(err, ErrKey) {
			t.Errorf("%d: %v", i, err)
		}
	}
	made := rsaAuthor{usual, t}.preamble()
	if err := StrictSign.CheckPreamble("t", made); err == nil || errors.Is(err, ErrKey) {
		t.Errorf("a usual key, of which the signature is missing: %v", err)
	}
}

func TestAnRSAKeyIsWrittenInOneWay(t *testing.T) {
	key := newKey(t, func(r io.Reader) (crypto.PrivKey, crypto.PubKey, error) { return crypto.GenerateRSAKeyPair(2048, r) })
	made := preambleOf(t, key)
	standard, err := crypto.PrivKeyToStdKey(key)
	if err != nil {
		t.Fatal(err)
	}
	usual := made.Key
	pkcs1 := x509.MarshalPKCS1PublicKey(&standard.(*rsa.PrivateKey).PublicKey)
	other, err := proto.Marshal(&keys.PublicKey{Type: keys.KeyType_RSA.Enum(), Data: pkcs1})
	if err != nil {
		t.Fatal(err)
	}
	for i, raw := range [][]byte{other, append(slices.Clone(usual[2:]), usual[:2]...), append(slices.Clone(usual), 0x18, 0)} {
		made.Key = raw
		if err := StrictSign.CheckPreamble("t", made); !errors.Is(err, ErrKey) {
			t.Errorf("%d: %v", i, err)
		}
	}
	made.Key = usual
	if err := StrictSign.CheckPreamble("t", made); err != nil {
		t.Error(err)
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
