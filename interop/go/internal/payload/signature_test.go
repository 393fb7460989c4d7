package payload

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
)

// groupOrder is that of Ed25519's base point.
var groupOrder, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

func scalar(lowestFirst []byte) *big.Int {
	whole := number(lowestFirst)
	return whole.Mod(whole, groupOrder)
}

func lowestFirst(scalar *big.Int) []byte {
	raw := scalar.FillBytes(make([]byte, pointSize))
	slices.Reverse(raw)
	return raw
}

// secretScalar is what an Ed25519 key multiplies the base point by.
func secretScalar(key ed25519.PrivateKey) *big.Int {
	digest := sha512.Sum512(key.Seed())
	digest[0] &= 248
	digest[31] = digest[31]&127 | 64
	return scalar(digest[:pointSize])
}

func TestSignaturesThatNotEachLibraryTakesDoNotHold(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := []byte(key.Public().(ed25519.PublicKey))
	secret, message := secretScalar(key), []byte("message")
	neutral := lowestFirst(big.NewInt(1))

	digest := sha512.Sum512(slices.Concat(neutral, public, message))
	s := new(big.Int).Mul(scalar(digest[:]), secret)
	smallR := slices.Concat(neutral, lowestFirst(s.Mod(s, groupOrder)))
	anyMessage := slices.Concat(public, lowestFirst(secret))
	for name, each := range map[string]struct{ key, signature []byte }{
		"R of small order":          {public, smallR},
		"a key of small order":      {neutral, anyMessage},
		"… with the sign of x":      {slices.Concat(neutral[:31], []byte{0x80}), anyMessage},
		"y of a key above 2^255-19": {slices.Concat([]byte{0xee}, slices.Repeat([]byte{0xff}, 30), []byte{0x7f}), anyMessage},
	} {
		odd, err := crypto.UnmarshalEd25519PublicKey(each.key)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := odd.Verify(message, each.signature); err != nil || !ok {
			t.Errorf("%s: Go's library takes none such any more", name)
		}
		if holds(odd, message, each.signature) {
			t.Errorf("%s: it holds", name)
		}
	}
	usual, err := crypto.UnmarshalEd25519PublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if !holds(usual, message, ed25519.Sign(key, message)) {
		t.Error("a usual signature doesn't hold")
	}
}

// TestNoPointOfSmallOrderSigns has a signature for each of the eight points, as key and as R; tests/wire/small_order.py
// makes them.
func TestNoPointOfSmallOrderSigns(t *testing.T) {
	raw, err := os.ReadFile("testdata/small_order.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Small, Key, Message, Signature string }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 16 {
		t.Fatalf("%d signatures", len(vectors))
	}
	for _, each := range vectors {
		key, err := crypto.UnmarshalEd25519PublicKey(unhex(t, each.Key))
		if err != nil {
			t.Fatal(err)
		}
		message, signature := unhex(t, each.Message), unhex(t, each.Signature)
		if ok, err := key.Verify(message, signature); err != nil || !ok {
			t.Errorf("%s %s: Go's library takes none such any more", each.Small, each.Signature)
		}
		if holds(key, message, signature) {
			t.Errorf("%s of small order: %s of key %s holds", each.Small, each.Signature, each.Key)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
