package core

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"episub-interop/internal/pb"
)

func announcement(prefix string, count int) *pb.IHave {
	message := &pb.IHave{}
	for i := range count {
		message.Summary = append(message.Summary, &pb.MessageSummary{
			Id: fmt.Appendf(nil, "%s %d", prefix, i), Hops: proto.Uint32(1),
		})
	}
	return message
}

func TestNoPeerFillsTheListOfMissingMessages(t *testing.T) {
	_, topic := alone(t, 6)
	for i := range maxMissing / maxIDs {
		for liar := range 4 {
			topic.onIHave(topic.links[liar], announcement(fmt.Sprint(liar, i), maxIDs))
		}
	}
	if len(topic.missing.known) != maxMissing || topic.missing.held[topic.links[0].id] != missingShare {
		t.Errorf("%d, %d of them one peer's", len(topic.missing.known), topic.missing.held[topic.links[0].id])
	}
	topic.onIHave(topic.links[5], announcement("true", 10))
	if topic.missing.held[topic.links[5].id] != 10 || len(topic.missing.known) != maxMissing {
		t.Error("the others have no room")
	}
	topic.missing.remove("true 3")
	if topic.missing.held[topic.links[5].id] != 9 {
		t.Error("what came is still counted")
	}
}

func TestEachAnnouncerIsAskedBeforeAMessageIsLost(t *testing.T) {
	n, topic := alone(t, maxAnnouncers)
	for _, l := range topic.links {
		topic.onIHave(l, announcement("never", 1))
	}
	missing := topic.missing.known["never 0"]
	for range 16 {
		n.run(graftTimeout)
		for _, l := range topic.links {
			l.heardAt = n.now // they send other things
		}
	}
	asked := map[string]bool{}
	for _, id := range missing.asked {
		asked[string(id)] = true
	}
	if len(asked) != maxAnnouncers || len(topic.missing.known) != 0 {
		t.Errorf("%d were asked, %d are missing", len(asked), len(topic.missing.known))
	}
}
