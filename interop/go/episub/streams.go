package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
	"episub-interop/internal/rpcs"
)

const (
	maxControlsQueued = 4096 // RPCs for one peer
	maxPayloadsQueued = 4096
	maxPiecesQueued   = 2                // up to so much a piece is added: others wait for as many at most
	largeRPC          = 16 << 10         // bytes, more than TCP sends at first: it takes round trips to come
	writeTimeout      = 30 * time.Second // that a peer may take nothing
)

// outgoing is what waits for one stream: control frames go before payloads, and pieces last.
type outgoing struct {
	urgent, payloads, bulk chan []byte
	wanting                atomic.Bool // more pieces wait for room
	ended                  chan struct{}
	once                   sync.Once
}

func newOutgoing() *outgoing {
	return &outgoing{
		urgent: make(chan []byte, maxControlsQueued), payloads: make(chan []byte, maxPayloadsQueued),
		bulk: make(chan []byte, maxPiecesQueued), ended: make(chan struct{}),
	}
}

func (o *outgoing) end() { o.once.Do(func() { close(o.ended) }) }

// idle tells whether so little waits that a piece may be added.
func (o *outgoing) idle() bool { return len(o.urgent)+len(o.payloads)+len(o.bulk) < maxPiecesQueued }

// add queues an RPC, false if there is no room.
func (o *outgoing) add(queue chan<- []byte, raw []byte) bool {
	select {
	case queue <- raw:
		return true
	default:
		return false
	}
}

// next is the next RPC to write; nil at the end.
func (o *outgoing) next() []byte {
	for _, queue := range []chan []byte{o.urgent, o.payloads} {
		select {
		case raw := <-queue:
			return raw
		default:
		}
	}
	select {
	case raw := <-o.urgent:
		return raw
	case raw := <-o.payloads:
		return raw
	case raw := <-o.bulk:
		return raw
	case <-o.ended:
		return nil
	}
}

// listen opens a stream to each peer that connects, and reads all that peers open.
func (n *node) listen() {
	n.host.SetStreamHandler(protocolID, n.readStream)
	n.keepRecords()
	n.host.Network().Notify(&network.NotifyBundle{
		ConnectedF:    func(_ network.Network, c network.Conn) { n.do(func() { n.connected(c.RemotePeer()) }) },
		DisconnectedF: func(_ network.Network, c network.Conn) { n.do(func() { n.disconnected(c.RemotePeer()) }) },
	})
}

// openStream opens our stream to a peer and writes what is queued for it.
func (n *node) openStream(id peer.ID) {
	ctx, cancel := context.WithTimeout(network.WithNoDial(context.Background(), "pubsub"), streamTimeout)
	defer cancel()
	stream, err := n.host.NewStream(ctx, id, protocolID)
	if err != nil {
		n.do(func() { n.dialled(id, false) })
		return
	}
	out, used := newOutgoing(), make(chan bool, 1)
	n.do(func() { used <- n.opened(id, out) })
	select {
	case is := <-used:
		if !is {
			_ = stream.Reset()
			return
		}
	case <-n.done:
		return
	}
	for raw := out.next(); raw != nil; raw = out.next() {
		framed := append(binary.AppendUvarint(nil, uint64(len(raw))), raw...)
		_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := stream.Write(framed); err != nil {
			break
		}
		if out.wanting.Load() && out.idle() {
			n.do(func() { n.sendPieces(id) })
		}
	}
	_ = stream.Reset()
	n.do(func() { n.closed(id, out) })
}

// readStream reads the RPCs of a peer until its stream ends or it sends what is no RPC.
func (n *node) readStream(stream network.Stream) {
	id := stream.Conn().RemotePeer()
	reader := bufio.NewReader(stream)
	arriving := false
	begun := func(size int) {
		if arriving = size >= largeRPC; arriving {
			_ = stream.SetReadDeadline(time.Now().Add(writeTimeout)) // a peer that stalls isn't waited for
			n.do(func() { n.arriving++ })
		}
	}
	for {
		raw, err := rpcs.Read(reader, begun)
		if err != nil {
			break
		}
		_ = stream.SetReadDeadline(time.Time{})
		rpc, extension := &pb.Rpc{}, &pb.EpisubRpc{}
		if proto.Unmarshal(raw, rpc) != nil {
			break
		}
		if proto.Unmarshal(raw, extension) != nil {
			extension = &pb.EpisubRpc{} // the frame alone is lost
		}
		large := arriving
		n.do(func() {
			n.received(id, rpc, extension.GetEpisub())
			if large {
				n.validated(rpc, func() { n.arriving-- })
			}
		})
		arriving = false
	}
	_ = stream.Reset()
	if arriving {
		n.do(func() { n.arriving-- })
	}
}
