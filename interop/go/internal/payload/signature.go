package payload

import (
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"slices"

	"github.com/libp2p/go-libp2p/core/crypto"
	keys "github.com/libp2p/go-libp2p/core/crypto/pb"
)

// holds reports whether the signature holds by the rules of docs/wire.md, which are narrower than Go's for
// Ed25519 and secp256k1. An author can make signatures that Go's libraries take and libsodium or
// libsecp256k1 doesn't, and a node that passed them on would count as a forger.
func holds(public crypto.PubKey, signed, signature []byte) bool {
	if ok, err := public.Verify(signed, signature); err != nil || !ok {
		return false
	}
	switch public.Type() {
	case keys.KeyType_Ed25519:
		key, err := public.Raw()
		return err == nil && isCanonical(key) && !hasSmallOrder(key) && !hasSmallOrder(signature)
	case keys.KeyType_Secp256k1:
		return !hasHighS(signature)
	}
	return true
}

// hasHighS: anybody can turn such a signature of secp256k1 into the other one of the same message.
func hasHighS(signature []byte) bool {
	var parts struct{ R, S *big.Int }
	_, err := asn1.Unmarshal(signature, &parts)
	return err != nil || parts.S.Cmp(halfOrder) > 0
}

// halfOrder is half of the order of secp256k1's group.
var halfOrder, _ = new(big.Int).SetString("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0", 16)

// pointSize is that of a point of Ed25519: y, the lowest byte first, and the sign of x in the last bit.
const pointSize = 32

// fieldPrime is 2^255 - 19.
var fieldPrime = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))

// smallOrder are y, in hexadecimal as in bytes, of the points whose order divides the cofactor, 8 (RFC 8032, section 5.1).
var smallOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// yOf is y of the point that `raw` begins with.
func yOf(raw []byte) []byte {
	y := slices.Clone(raw[:pointSize])
	y[pointSize-1] &= 0x7f
	return y
}

// number is that of bytes of which the lowest is the first.
func number(raw []byte) *big.Int {
	highestFirst := slices.Clone(raw)
	slices.Reverse(highestFirst)
	return new(big.Int).SetBytes(highestFirst)
}

func isCanonical(key []byte) bool {
	return number(yOf(key)).Cmp(fieldPrime) < 0
}

func hasSmallOrder(raw []byte) bool {
	return slices.Contains(smallOrder, hex.EncodeToString(yOf(raw)))
}
