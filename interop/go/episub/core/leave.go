package core

import (
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/record"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

// leaveRecord is LeaveRecord as libp2p's envelopes want it.
type leaveRecord struct{ pb.LeaveRecord }

func (*leaveRecord) Domain() string { return "episub-leave" }
func (*leaveRecord) Codec() []byte  { return []byte("/episub/leave") }

func (r *leaveRecord) MarshalRecord() ([]byte, error) { return proto.Marshal(&r.LeaveRecord) }
func (r *leaveRecord) UnmarshalRecord(data []byte) error {
	return proto.Unmarshal(data, &r.LeaveRecord)
}

// Prove is the proof that the key's peer leaves a topic now.
func Prove(key crypto.PrivKey, topic string, now time.Time) ([]byte, error) {
	left := &leaveRecord{}
	left.Topic, left.Seq = &topic, proto.Uint64(uint64(now.UnixNano()))
	envelope, err := record.Seal(left, key)
	if err != nil {
		return nil, err
	}
	return envelope.Marshal()
}

// CheckProof returns when the source left the topic, if the proof holds.
func CheckProof(proof []byte, source peer.ID, topic string) (uint64, error) {
	if len(proof) == 0 || len(proof) > maxProof {
		return 0, errors.New("no proof is so long")
	}
	left := &leaveRecord{}
	envelope, err := record.ConsumeTypedEnvelope(proof, left)
	if err != nil {
		return 0, err
	}
	if string(envelope.PayloadType) != string(left.Codec()) || left.GetTopic() != topic ||
		left.GetSeq() == 0 || !source.MatchesPublicKey(envelope.PublicKey) {
		return 0, errors.New("the proof is for something else")
	}
	return left.GetSeq(), nil
}

// Leave ends the node's part in the topic.
func (t *Topic) Leave(proof []byte) {
	goodbye := Disconnect(false)
	if len(proof) > 0 {
		goodbye = controlLeave(&pb.Leave{Source: []byte(t.me), Ttl: proto.Uint32(leaveTTL), Proof: proof})
	}
	for _, l := range t.links {
		t.port.Send(l.id, goodbye)
	}
	t.links, t.left = nil, true
	t.pieces.Clear()
	t.port.Linked(nil)
}

// onLeave forgets a node that has left, and passes that on if it was known here.
func (t *Topic) onLeave(from peer.ID, message *pb.Leave) {
	source, err := peer.IDFromBytes(message.Source)
	if err != nil || source == t.me || message.GetTtl() > maxTTL {
		return
	}
	seq, err := CheckProof(message.Proof, source, t.name)
	if err != nil {
		if source == from {
			t.onDisconnect(from, &pb.Disconnect{Alive: proto.Bool(false)})
		}
		return
	}
	age := t.port.Now().Sub(time.Unix(0, int64(seq))).Abs()
	if age > leaveWindow || seq <= t.leaves.of[source] {
		return
	}
	t.leaves.put(source, seq)
	t.search.lost.take(source)
	linked := t.dropLink(source, false, false)
	if t.passive.remove(source) || linked {
		ttl := min(message.GetTtl(), leaveTTL)
		for _, id := range t.neighbors(from) {
			t.port.Send(id, controlLeave(&pb.Leave{
				Source: message.Source, Ttl: proto.Uint32(max(ttl, 1) - 1), Proof: message.Proof,
			}))
		}
	}
	if linked {
		t.replaceLink(source)
	}
}
