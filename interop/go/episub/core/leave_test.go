package core

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// The vectors of docs/wire.md, section 10.
const (
	vectorPeer  = "002408011220af06a3e3291714e4f356c19c9b15cd1951ec6e6662aa77be07547f289383341d"
	vectorProof = "0a2408011220af06a3e3291714e4f356c19c9b15cd1951ec6e6662aa77be0754" +
		"7f289383341d120d2f6570697375622f6c656176651a120a06626c6f636b7310" +
		"8080808080808080102a40b2b6b8128e00a75a1b50aebdb5ed9ee082e536d9b9" +
		"a3527695089e00979a136c481bc64ac5244ebf06e5ef38f6bfcde96e3e6a8f7c" +
		"8aeec15cf06b1d11face0b"
)

func TestTheProofOfAnotherImplementationHolds(t *testing.T) {
	raw, _ := hex.DecodeString(vectorPeer)
	proof, _ := hex.DecodeString(vectorProof)
	source, err := peer.IDFromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := CheckProof(proof, source, "blocks")
	if err != nil || seq != 1<<60 {
		t.Errorf("%d, %v", seq, err)
	}
	if _, err := CheckProof(proof, source, "other"); err == nil {
		t.Error("it holds for another topic")
	}
}

func TestALeaveCountsOnce(t *testing.T) {
	n := newNetwork(t, 5)
	n.run(10 * time.Second)
	gone := n.nodes[1]
	proof, err := Prove(gone.key, "t", n.now)
	if err != nil {
		t.Fatal(err)
	}
	gone.topic.Leave(proof)
	n.run(time.Second)
	before := n.sent["leave"]
	other := n.nodes[2].topic
	other.passive.add(other, gone.id, "", nil)
	other.onLeave(n.nodes[0].id, leaveOf(gone, proof))
	if n.sent["leave"] != before || other.passive.find(gone.id) == nil {
		t.Error("an old LEAVE was acted on")
	}
}

func leaveOf(node *simNode, proof []byte) *pb.Leave {
	return &pb.Leave{Source: []byte(node.id), Ttl: proto.Uint32(leaveTTL), Proof: proof}
}
