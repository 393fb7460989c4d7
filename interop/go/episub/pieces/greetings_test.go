package pieces

import (
	"testing"
	"time"
)

func TestANeighbourThatDoesNotAnswerIsGreetedAgain(t *testing.T) {
	n := ids(t, 1)
	b := newTable(t)
	b.Up(n[0])
	b.run(4900 * time.Millisecond)
	if len(b.sent[n[0]]) != 1 {
		t.Fatalf("%d greetings at once", len(b.sent[n[0]]))
	}
	b.run(200 * time.Millisecond)
	if len(b.sent[n[0]]) != 2 {
		t.Fatalf("%d greetings", len(b.sent[n[0]]))
	}
	b.Receive(n[0], offerOf())
	b.run(time.Minute)
	if len(b.sent[n[0]]) != 2 || !b.Takes(n[0]) {
		t.Fatalf("%d greetings after its answer", len(b.sent[n[0]]))
	}
	b.Receive(n[0], offerOf()) // it hasn't got ours
	b.Receive(n[0], offerOf())
	if len(b.sent[n[0]]) != 3 {
		t.Fatalf("%d greetings after it greeted twice more", len(b.sent[n[0]]))
	}
}

func TestANeighbourThatNeverAnswersIsGreetedFiveTimes(t *testing.T) {
	n := ids(t, 1)
	b := newTable(t)
	b.Up(n[0])
	b.run(10 * time.Minute)
	if len(b.sent[n[0]]) != 5 || b.Takes(n[0]) {
		t.Fatalf("%d greetings", len(b.sent[n[0]]))
	}
	b.Receive(n[0], offerOf()) // late, and welcome
	if !b.Takes(n[0]) {
		t.Fatal("an answer was too late")
	}
}
