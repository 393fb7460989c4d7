package main

import (
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// unheeded is a RawTracer that passes over everything; tracers embed it.
type unheeded struct{}

func (unheeded) OnNewOutboundStream(peer.ID, protocol.ID)             {}
func (unheeded) OnClosedOutboundStream(peer.ID)                       {}
func (unheeded) Join(string)                                          {}
func (unheeded) Leave(string)                                         {}
func (unheeded) Graft(peer.ID, string)                                {}
func (unheeded) Prune(peer.ID, string)                                {}
func (unheeded) ValidateMessage(*pubsub.Message)                      {}
func (unheeded) DeliverMessage(*pubsub.Message)                       {}
func (unheeded) RejectMessage(*pubsub.Message, string)                {}
func (unheeded) DuplicateMessage(*pubsub.Message)                     {}
func (unheeded) ThrottlePeer(peer.ID)                                 {}
func (unheeded) RecvRPC(*pubsub.RPC)                                  {}
func (unheeded) SendRPC(*pubsub.RPC, peer.ID)                         {}
func (unheeded) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}
func (unheeded) DropRPC(*pubsub.RPC, peer.ID)                         {}
func (unheeded) UndeliverableMessage(*pubsub.Message)                 {}
