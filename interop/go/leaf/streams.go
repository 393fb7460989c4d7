package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/lines"
	"episub-interop/internal/pb"
	"episub-interop/internal/rpcs"
)

// remote is a connected peer.
type remote struct {
	out      chan []byte // RPCs for its stream
	sent     uint64      // sequence id of the last frame that was queued for it
	seen     window
	topics   map[string]bool
	record   []byte // its signed peer record
	lastTold time.Time
}

// listen opens a stream to everybody who connects, and reads everybody's streams.
func (n *node) listen() {
	n.host.SetStreamHandler(protocolID, n.readStream)
	n.host.Network().Notify(&network.NotifyBundle{
		ConnectedF:    func(_ network.Network, c network.Conn) { go n.openStream(c.RemotePeer()) },
		DisconnectedF: func(_ network.Network, c network.Conn) { n.do(func() { n.disconnected(c.RemotePeer()) }) },
	})
}

// openStream opens our stream to a peer and writes what is queued for it.
func (n *node) openStream(id peer.ID) {
	ctx, cancel := context.WithTimeout(context.Background(), streamTimeout)
	defer cancel()
	stream, err := n.host.NewStream(ctx, id, protocolID)
	if err != nil {
		return
	}
	out := make(chan []byte, maxQueued)
	n.do(func() { n.connected(id, out) })
	for rpc := range out {
		framed := append(binary.AppendUvarint(nil, uint64(len(rpc))), rpc...)
		if _, err := stream.Write(framed); err != nil {
			_ = stream.Reset()
			return
		}
	}
	_ = stream.Close()
}

// readStream reads the RPCs of a peer until its stream ends or it sends what is no RPC.
func (n *node) readStream(stream network.Stream) {
	id := stream.Conn().RemotePeer()
	reader := bufio.NewReader(stream)
	for {
		raw, err := rpcs.Read(reader, nil)
		if err != nil {
			break
		}
		rpc, extension := &pb.Rpc{}, &pb.EpisubRpc{}
		if proto.Unmarshal(raw, rpc) != nil || proto.Unmarshal(raw, extension) != nil {
			break
		}
		n.do(func() { n.received(id, rpc, extension.GetEpisub()) })
	}
	_ = stream.Reset()
}

// send queues an RPC, with the frame if there is one. What doesn't fit is dropped.
func (n *node) send(id peer.ID, rpc *pb.Rpc, frame *pb.EpisubFrame) {
	other := n.peers[id]
	if other == nil || other.out == nil {
		return
	}
	if frame != nil {
		other.sent++
		frame.Seq = &other.sent
		rpc.Control = &pb.ControlMessage{}
	}
	raw, err := proto.Marshal(rpc)
	if err != nil {
		panic(err)
	}
	// Two encoded messages in a row are the merged message.
	raw, err = proto.MarshalOptions{}.MarshalAppend(raw, &pb.EpisubRpc{Episub: frame})
	if err != nil {
		panic(err)
	}
	select {
	case other.out <- raw:
	default:
		lines.Emit("dropped", lines.Fields{"peer": id.String()})
	}
}

// window is the replay window of docs/wire.md section 3.
type window struct {
	highest uint64
	ids     map[uint64]bool
}

// accepts tells whether a sequence id is new, and remembers it.
func (w *window) accepts(seq uint64) bool {
	if seq == 0 || w.ids[seq] || (w.highest >= replayWindow && seq <= w.highest-replayWindow) {
		return false
	}
	if w.ids == nil {
		w.ids = map[uint64]bool{}
	}
	w.ids[seq] = true
	w.highest = max(w.highest, seq)
	for id := range w.ids {
		if w.highest >= replayWindow && id <= w.highest-replayWindow {
			delete(w.ids, id)
		}
	}
	return true
}
