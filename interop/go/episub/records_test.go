package main

import (
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/hosts"
	"episub-interop/internal/payload"
	"episub-interop/internal/records"
)

func started(t *testing.T, seed string) *node {
	key, err := hosts.NewKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hosts.Open(key, "/ip4/127.0.0.1/tcp/0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	record, err := records.Own(h, key)
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(h, key, record, payload.StrictSign)
	n.listen()
	go n.run()
	return n
}

func TestOthersAreToldOfAContactWithItsRecord(t *testing.T) {
	asked, contact, newcomer := started(t, "asked"), started(t, "contact"), started(t, "newcomer")
	updates, err := asked.host.EventBus().Subscribe(new(event.EvtPeerIdentificationCompleted))
	if err != nil {
		t.Fatal(err)
	}
	to := peer.AddrInfo{ID: contact.host.ID(), Addrs: contact.host.Addrs()}
	if err := asked.host.Connect(context.Background(), to); err != nil {
		t.Fatal(err)
	}
	<-updates.Out()
	told := port{node: asked}.Info(to.ID)
	for deadline := time.Now().Add(10 * time.Second); len(told.SignedPeerRecord) == 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // another subscriber keeps it
		told = port{node: asked}.Info(to.ID)
	}
	if id, ok := (port{node: newcomer}).Learn(told); !ok || id != to.ID {
		t.Fatalf("%v", told)
	}
	if len(newcomer.host.Peerstore().Addrs(to.ID)) == 0 {
		t.Error("it can't be dialled")
	}
}
