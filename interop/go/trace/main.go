// Reads and writes trace files with go-libp2p-pubsub's own code, for tests of ours.
//
//	trace read pb|json FILE    counts by type, and by submessage, as JSON
//	trace write pb|json FILE   one event of each type, by PBTracer or JSONTracer
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"google.golang.org/protobuf/encoding/protodelim"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: trace read|write pb|json FILE")
	}
	switch args[0] {
	case "read":
		return read(args[1], args[2])
	case "write":
		return write(args[1], args[2])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func read(format, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = bufio.NewReader(file)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return err
		}
	}
	next := reader(format, in)
	types, contents, messages := map[string]int{}, map[string]int{}, map[string]int{}
	for {
		var event pb.TraceEvent
		err := next(&event)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		types[event.GetType().String()]++
		if content := contentOf(&event); content != "" {
			contents[content]++
		}
		if event.DeliverMessage != nil {
			messages[fmt.Sprintf("%x", event.DeliverMessage.MessageID)]++
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"types": types, "contents": contents, "delivered": messages,
	})
}

func reader(format string, in io.Reader) func(*pb.TraceEvent) error {
	if format == "json" {
		decoder := json.NewDecoder(in)
		return func(event *pb.TraceEvent) error { return decoder.Decode(event) }
	}
	// The limit is that of tracestat.
	reader := bufio.NewReader(in)
	limited := protodelim.UnmarshalOptions{MaxSize: 1 << 20}
	return func(event *pb.TraceEvent) error { return limited.UnmarshalFrom(reader, event) }
}

func contentOf(event *pb.TraceEvent) string {
	switch {
	case event.PublishMessage != nil:
		return "publishMessage"
	case event.RejectMessage != nil:
		return "rejectMessage"
	case event.DuplicateMessage != nil:
		return "duplicateMessage"
	case event.DeliverMessage != nil:
		return "deliverMessage"
	case event.OnNewOutboundStream != nil:
		return "onNewOutboundStream"
	case event.OnClosedOutboundStream != nil:
		return "onClosedOutboundStream"
	case event.RecvRPC != nil:
		return "recvRPC"
	case event.SendRPC != nil:
		return "sendRPC"
	case event.DropRPC != nil:
		return "dropRPC"
	case event.Join != nil:
		return "join"
	case event.Leave != nil:
		return "leave"
	case event.Graft != nil:
		return "graft"
	case event.Prune != nil:
		return "prune"
	case event.SendRPCCompleted != nil:
		return "sendRPCCompleted"
	}
	return ""
}

type tracer interface {
	pubsub.EventTracer
	Close()
}

func write(format, path string) error {
	var out tracer
	var err error
	if format == "pb" {
		out, err = pubsub.NewPBTracer(path)
	} else {
		out, err = pubsub.NewJSONTracer(path)
	}
	if err != nil {
		return err
	}
	for kind := range pb.TraceEvent_Type_name {
		out.Trace(sample(pb.TraceEvent_Type(kind)))
	}
	out.Close()
	return waitUntilWritten(format, path)
}

// Close doesn't wait for the goroutine that writes.
func waitUntilWritten(format, path string) error {
	var err error
	for range 1000 {
		var count int
		if count, err = countEvents(format, path); count == len(pb.TraceEvent_Type_name) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("the tracer wrote no complete file: %w", err)
}

func countEvents(format, path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	next := reader(format, file)
	for count := 0; ; count++ {
		if err := next(new(pb.TraceEvent)); err != nil {
			return count, err
		}
	}
}

func sample(kind pb.TraceEvent_Type) *pb.TraceEvent {
	now := int64(1_763_000_000_000_000_000) + int64(kind)
	topic, reason, protocol, yes := "news", pubsub.RejectValidationFailed, "/meshsub/1.2.0", true
	id, peer := []byte{1, 2, 0xff}, []byte("other")
	event := &pb.TraceEvent{Type: &kind, PeerID: []byte("me"), Timestamp: &now}
	meta := &pb.TraceEvent_RPCMeta{
		Messages:     []*pb.TraceEvent_MessageMeta{{MessageID: id, Topic: &topic}},
		Subscription: []*pb.TraceEvent_SubMeta{{Subscribe: &yes, Topic: &topic}},
		Control: &pb.TraceEvent_ControlMeta{
			Ihave: []*pb.TraceEvent_ControlIHaveMeta{{Topic: &topic, MessageIDs: [][]byte{id, id}}},
			Iwant: []*pb.TraceEvent_ControlIWantMeta{{MessageIDs: [][]byte{id}}},
			Graft: []*pb.TraceEvent_ControlGraftMeta{{Topic: &topic}},
			Prune: []*pb.TraceEvent_ControlPruneMeta{{Topic: &topic, Peers: [][]byte{peer}}},
		},
	}
	switch kind {
	case pb.TraceEvent_PUBLISH_MESSAGE:
		event.PublishMessage = &pb.TraceEvent_PublishMessage{MessageID: id, Topic: &topic}
	case pb.TraceEvent_REJECT_MESSAGE:
		event.RejectMessage = &pb.TraceEvent_RejectMessage{
			MessageID: id, ReceivedFrom: peer, Reason: &reason, Topic: &topic,
		}
	case pb.TraceEvent_DUPLICATE_MESSAGE:
		event.DuplicateMessage = &pb.TraceEvent_DuplicateMessage{
			MessageID: id, ReceivedFrom: peer, Topic: &topic,
		}
	case pb.TraceEvent_DELIVER_MESSAGE:
		event.DeliverMessage = &pb.TraceEvent_DeliverMessage{
			MessageID: id, ReceivedFrom: peer, Topic: &topic,
		}
	case pb.TraceEvent_ON_NEW_OUTBOUND_STREAM:
		event.OnNewOutboundStream = &pb.TraceEvent_OnNewOutboundStream{
			PeerID: peer, Proto: &protocol,
		}
	case pb.TraceEvent_ON_CLOSED_OUTBOUND_STREAM:
		event.OnClosedOutboundStream = &pb.TraceEvent_OnClosedOutboundStream{PeerID: peer}
	case pb.TraceEvent_RECV_RPC:
		event.RecvRPC = &pb.TraceEvent_RecvRPC{ReceivedFrom: peer, Meta: meta}
	case pb.TraceEvent_SEND_RPC:
		event.SendRPC = &pb.TraceEvent_SendRPC{SendTo: peer, Meta: meta}
	case pb.TraceEvent_DROP_RPC:
		event.DropRPC = &pb.TraceEvent_DropRPC{SendTo: peer, Meta: meta}
	case pb.TraceEvent_JOIN:
		event.Join = &pb.TraceEvent_Join{Topic: &topic}
	case pb.TraceEvent_LEAVE:
		event.Leave = &pb.TraceEvent_Leave{Topic: &topic}
	case pb.TraceEvent_GRAFT:
		event.Graft = &pb.TraceEvent_Graft{PeerID: peer, Topic: &topic}
	case pb.TraceEvent_PRUNE:
		event.Prune = &pb.TraceEvent_Prune{PeerID: peer, Topic: &topic}
	case pb.TraceEvent_SEND_RPC_COMPLETED:
		took := int64(25 * time.Millisecond)
		event.SendRPCCompleted = &pb.TraceEvent_SendRPCCompleted{
			SendTo: peer, Meta: meta, WriteDurationNanos: &took,
		}
	}
	return event
}
