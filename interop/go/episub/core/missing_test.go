package core

import (
	"fmt"
	"testing"
	"time"

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
	n, topic := alone(t, 2)
	liar, other := topic.links[0], topic.links[1]
	for i := range maxMissing / maxIDs {
		topic.onIHave(liar, announcement(fmt.Sprint(i), maxIDs))
	}
	topic.onIHave(other, announcement("true", 10))
	if liar.first != maxEach || other.first != 10 || len(topic.cache.open) != maxEach+10 {
		t.Errorf("%d, %d of %d", liar.first, other.first, len(topic.cache.open))
	}
	topic.giveUp(topic.cache.open["true 3"])
	if other.first != 9 {
		t.Error("what came is still counted")
	}
	for range 30 {
		n.run(time.Second)
		liar.heardAt, other.heardAt = n.now, n.now
	}
	if liar.first != 0 || other.first != 0 || len(topic.cache.open) != 0 {
		t.Errorf("%d are missing", len(topic.cache.open))
	}
}

func TestEachAnnouncerIsAskedTwiceBeforeAMessageIsLost(t *testing.T) {
	n, topic := alone(t, activeBound)
	for _, l := range topic.links {
		topic.onIHave(l, announcement("never", 1))
	}
	missing := topic.cache.open["never 0"]
	for range 60 {
		n.run(lateAnswer)
		for _, l := range topic.links {
			l.heardAt = n.now // they send other things
		}
	}
	for _, l := range topic.links {
		if missing.timesAsked(l.id) < 2 {
			t.Errorf("%s was asked %d times", l.id, missing.timesAsked(l.id))
		}
	}
	if len(topic.cache.open) != 0 || n.refused["message-lost"] != 1 {
		t.Errorf("%d are missing", len(topic.cache.open))
	}
}

func TestWhileALargeMessageComesInNothingIsAskedForAtOnce(t *testing.T) {
	n, topic := alone(t, 2)
	n.node(topic.me).arriving = true
	topic.onIHave(topic.links[0], announcement("large", 1))
	missing := topic.cache.open["large 0"]
	if n.run(lateAnswer - time.Millisecond); len(missing.asked) > 0 {
		t.Error("it is asked for, and perhaps it comes")
	}
	if n.run(2 * piggyback); len(missing.asked) == 0 {
		t.Error("it isn't asked for, though something else comes")
	}
}

func TestALagIsLearnedForEachNeighbour(t *testing.T) {
	n, topic := alone(t, 2)
	early, slow := topic.links[0], topic.links[1]
	for i := range 40 {
		for _, l := range topic.links {
			id := fmt.Sprint(l.id, i)
			topic.onIHave(l, announcement(id, 1))
			m := topic.cache.take(id + " 0")
			if l == slow {
				n.now = n.now.Add(200 * time.Millisecond)
			}
			topic.noteFirstCopy(m)
		}
	}
	if early.lag > 5*time.Millisecond || slow.lag < 190*time.Millisecond {
		t.Errorf("%s, %s", early.lag, slow.lag)
	}
}

func TestWhatOwesAnAnswerIsAskedAfterOthers(t *testing.T) {
	n, topic := alone(t, 2)
	late, other := topic.links[0], topic.links[1]
	topic.onIHave(late, announcement("first", 1))
	n.run(2 * lateAnswer)
	topic.onIHave(late, announcement("second", 1))
	topic.onIHave(other, announcement("second", 1))
	if topic.nextAnnouncer(topic.cache.open["second 0"]) != other {
		t.Error("the one that owes an answer is asked again")
	}
	late.keep("first 0", n.now)
	late.keep("first 0", n.now)
	if late.doubted = false; topic.nextAnnouncer(topic.cache.open["second 0"]) != late {
		t.Error("the earliest is asked")
	}
}

func TestALargeMessageIsAnnouncedWhenItCanHaveBeenPushed(t *testing.T) {
	small, large := &message{size: largeMessage - 1}, &message{size: 6 * largeMessage}
	_, topic := alone(t, 2)
	for m, after := range map[*message]time.Duration{small: 0, large: 6 * largeTakes} {
		topic.lazy.timer.cancel()
		topic.lazy.add(topic, m)
		wait := topic.lazy.timer.at.Sub(topic.port.Now())
		if wait < after+lazyDelay/10 || wait > after+lazyDelay {
			t.Errorf("%d bytes are announced after %s", m.size, wait)
		}
	}
}
