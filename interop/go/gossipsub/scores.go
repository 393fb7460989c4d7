package main

import (
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"episub-interop/internal/lines"
)

// inspected is how often the scores are reported.
const inspected = 500 * time.Millisecond

// slot is Ethereum's: decays below are named in epochs of 32 slots.
const slot = 12 * time.Second

// scoring is what an Ethereum consensus client keeps of its peers (as Prysm and Lighthouse have it),
// for the topics that are named. Loopback addresses don't count as one crowded address, and there is
// no deficit of mesh deliveries, since the traffic of a test isn't that of blocks.
func scoring(topics []string, into *report) []pubsub.Option {
	params := &pubsub.PeerScoreParams{
		Topics:                      map[string]*pubsub.TopicScoreParams{},
		TopicScoreCap:               32.72,
		AppSpecificScore:            func(peer.ID) float64 { return 0 },
		AppSpecificWeight:           1,
		IPColocationFactorWeight:    -35.11,
		IPColocationFactorThreshold: 10,
		IPColocationFactorWhitelist: loopback(),
		BehaviourPenaltyWeight:      -15.92,
		BehaviourPenaltyThreshold:   6,
		BehaviourPenaltyDecay:       pubsub.ScoreParameterDecay(10 * 32 * slot),
		DecayInterval:               slot,
		DecayToZero:                 0.01,
		RetainScore:                 100 * 32 * slot,
	}
	for _, topic := range topics {
		params.Topics[topic] = topicScoring()
	}
	thresholds := &pubsub.PeerScoreThresholds{
		GossipThreshold:             -4000,
		PublishThreshold:            -8000,
		GraylistThreshold:           -16000,
		AcceptPXThreshold:           100,
		OpportunisticGraftThreshold: 5,
	}
	return []pubsub.Option{
		pubsub.WithPeerScore(params, thresholds),
		pubsub.WithPeerScoreInspect(into.add, inspected),
	}
}

// topicScoring is that of Ethereum's aggregates.
func topicScoring() *pubsub.TopicScoreParams {
	return &pubsub.TopicScoreParams{
		TopicWeight:                    0.5,
		TimeInMeshWeight:               0.0324,
		TimeInMeshQuantum:              slot,
		TimeInMeshCap:                  300,
		FirstMessageDeliveriesWeight:   0.128,
		FirstMessageDeliveriesDecay:    pubsub.ScoreParameterDecay(32 * slot),
		FirstMessageDeliveriesCap:      179,
		InvalidMessageDeliveriesWeight: -140.45,
		InvalidMessageDeliveriesDecay:  pubsub.ScoreParameterDecay(50 * 32 * slot),
	}
}

func loopback() []*net.IPNet {
	_, v4, _ := net.ParseCIDR("127.0.0.0/8")
	_, v6, _ := net.ParseCIDR("::1/128")
	return []*net.IPNet{v4, v6}
}

// report prints the score of a peer that is new, below 0, or has a new penalty, and of all when asked.
type report struct {
	last  map[peer.ID]*pubsub.PeerScoreSnapshot
	asked atomic.Bool
}

func (r *report) add(now map[peer.ID]*pubsub.PeerScoreSnapshot) {
	all := r.asked.Swap(false)
	for _, id := range slices.Sorted(maps.Keys(now)) {
		is, was := now[id], r.last[id]
		if !all && was != nil && is.Score >= 0 && is.BehaviourPenalty <= was.BehaviourPenalty {
			continue
		}
		invalid := 0.0
		for _, topic := range is.Topics {
			invalid += topic.InvalidMessageDeliveries
		}
		lines.Emit("score", lines.Fields{"peer": id.String(), "score": is.Score,
			"invalid": invalid, "penalty": is.BehaviourPenalty})
	}
	r.last = now
	if all {
		lines.Emit("scores", lines.Fields{"peers": len(now)})
	}
}
