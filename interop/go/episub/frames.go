package main

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/episub/core"
	"episub-interop/episub/pieces"
	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
	"episub-interop/internal/rpcs"
)

// send queues an RPC, with the frame if there is one; false if there is no room.
func (n *node) send(id peer.ID, rpc *pb.Rpc, frame *pb.EpisubFrame) bool {
	other := n.remotes[id]
	if other == nil || other.out == nil {
		return false
	}
	if frame != nil {
		frame.Seq = proto.Uint64(other.sent + 1)
		rpc.Control = &pb.ControlMessage{}
	}
	raw, err := proto.Marshal(rpc)
	if err == nil {
		// Two encoded messages in a row are the merged message.
		raw, err = proto.MarshalOptions{}.MarshalAppend(raw, &pb.EpisubRpc{Episub: frame})
	}
	if err != nil || len(raw) > rpcs.MaxSize {
		return false
	}
	if n.faults.muted[id] {
		return true
	}
	queue := other.out.urgent
	switch {
	case len(rpc.Publish) > 0:
		queue = other.out.payloads
	case len(frame.GetControl()) == 1 && frame.Control[0].GetPiece() != nil:
		queue = other.out.bulk
	}
	if !other.out.add(queue, raw) {
		lines.Emit("dropped", lines.Fields{"peer": id.String()})
		return false
	}
	if frame != nil {
		other.sent++
	}
	return true
}

// sendControl sends control messages in a frame of their own. Beyond so many signed records, peers
// go without theirs.
func (n *node) sendControl(topic string, id peer.ID, controls ...*pb.Control) {
	for _, control := range controls {
		n.counts.note(n.counts.out, control)
		for _, info := range infosOf(control)[min(len(infosOf(control)), maxRecords):] {
			info.SignedPeerRecord = nil
		}
	}
	frame := &pb.EpisubFrame{Topic: &topic, Control: controls}
	// The stream of a peer that has just connected may come before ours is open.
	if other := n.remotes[id]; other != nil && other.out == nil && len(other.early) < maxEarly {
		soon := time.Now().Add(streamTimeout)
		other.early = append(other.early, func() {
			if time.Now().Before(soon) {
				n.send(id, &pb.Rpc{}, frame)
			}
		})
		return
	}
	n.send(id, &pb.Rpc{}, frame)
}

func infosOf(control *pb.Control) []*pb.PeerInfo {
	switch message := control.Message.(type) {
	case *pb.Control_Nodes_:
		return message.Nodes_.Peers
	case *pb.Control_Neighbor:
		return message.Neighbor.Peers
	case *pb.Control_Shuffle:
		return message.Shuffle.Peers
	case *pb.Control_ShuffleReply:
		return message.ShuffleReply.Peers
	}
	return nil
}

// announceTopics tells everybody that this node has joined or left a topic.
func (n *node) announceTopics(subscribe bool, name string) {
	for id := range n.remotes {
		n.send(id, &pb.Rpc{
			Subscriptions: []*pb.Rpc_SubOpts{{Subscribe: &subscribe, Topicid: &name}},
		}, nil)
	}
}

// received handles one RPC: subscriptions, control messages, then the payload.
func (n *node) received(id peer.ID, rpc *pb.Rpc, frame *pb.EpisubFrame) {
	if n.faults.muted[id] || n.faults.blocked[id] {
		return
	}
	other := n.remote(id)
	for _, change := range rpc.Subscriptions {
		n.subscribed(id, change.GetTopicid(), change.GetSubscribe())
	}
	name := frame.GetTopic()
	if frame != nil && (name == "" || len(name) > maxTopic || !other.seen.accepts(frame.GetSeq())) {
		frame = nil
	}
	t := n.topics[frame.GetTopic()]
	for _, control := range frame.GetControl()[:min(len(frame.GetControl()), maxControls)] {
		n.counts.note(n.counts.in, control)
		if t == nil {
			n.notSubscribed(id, name, other, control)
			continue
		}
		if impliesSubscription(control) {
			n.subscribed(id, name, true)
		}
		t.Received(id, control)
	}
	header := frame.GetGossip()
	if len(rpc.Publish) != 1 || rpc.Publish[0].GetTopic() != frame.GetTopic() {
		header = nil
	}
	for _, message := range rpc.Publish {
		n.copied(id, message)
		if n.topics[message.GetTopic()] == nil {
			n.notSubscribed(id, message.GetTopic(), other, nil)
		}
	}
	n.validated(rpc, func() {
		for _, message := range rpc.Publish {
			t := n.topics[message.GetTopic()]
			if t != nil && t.Gossip(id, message, header) != nil {
				lines.Emit("refused", lines.Fields{"peer": id.String(), "reason": "payload"})
			}
		}
	})
}

// impliesSubscription: only a subscriber sends this.
func impliesSubscription(control *pb.Control) bool {
	switch control.Message.(type) {
	case *pb.Control_Disconnect, *pb.Control_Leave, *pb.Control_GetTopics, *pb.Control_Topics_, nil:
		return false
	}
	return true
}

// notSubscribed answers what came for a topic that isn't ours: GETTOPICS, and what is only sent to
// neighbours; nil is a payload.
func (n *node) notSubscribed(id peer.ID, topic string, other *remote, control *pb.Control) {
	if control != nil {
		switch control.Message.(type) {
		case *pb.Control_GetTopics:
			n.sendControl(topic, id, core.Topics(n.subscriptions()))
			return
		case *pb.Control_Neighbor, *pb.Control_Ihave, *pb.Control_Prune, *pb.Control_Graft, *pb.Control_Root:
		default:
			if !pieces.Is(control) {
				return
			}
		}
	}
	if time.Since(other.answered) >= time.Second && topic != "" {
		other.answered = time.Now()
		n.sendControl(topic, id, core.Disconnect(false))
	}
}
