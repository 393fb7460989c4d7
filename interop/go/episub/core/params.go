package core

import "time"

// Parameters of docs/wire.md: of the overlay in sections 6 and 11, of the trees in 6 and 12. What a
// duration is for stands there.
const (
	activeSize   = 8
	activeBound  = 13
	wishBound    = activeSize + 2 // for peers that ask
	randomLinks  = 4
	nearLinks    = 4
	passiveSize  = 48
	passiveShare = 12 // a quarter of the view: entries of one group, or that one named
	needBelieved = time.Minute

	joinTTL      = 6
	shuffleTTL   = 6
	leaveTTL     = 3
	maxTTL       = 16
	maxLinks     = 255
	maxHops      = 64
	maxPeers     = 64
	maxTopics    = 128
	maxProof     = 2560
	maxMessageID = 256
	maxSources   = 128

	contactsAsked = 3
	maxContacts   = 64
	nodesPeers    = 16
	nodesGiven    = 8
	nodesTimeout  = 3 * time.Second
	joinTimeout   = 5 * time.Second

	growInterval    = 5 * time.Second
	joinGrow        = 1500 * time.Millisecond // until the view was full once
	maxStretch      = 8
	requestTimeout  = 5 * time.Second
	refusedBackoff  = 120 * time.Second
	refusedInNeed   = 10 * time.Second // while there are fewer than randomLinks
	maxRefused      = 64
	maxOpen         = 32 // JOINs
	maxMeasuring    = 64 // peers that asked for a link
	joinLifetime    = 30 * time.Second
	requestLifetime = 120 * time.Second
	stabilizeEvery  = 10 * time.Second
	listTimeout     = time.Second
	optimizeEvery   = 10 * time.Second
	rttAdvantage    = 2
	rttMinGain      = 5 * time.Millisecond
	probeInterval   = 7500 * time.Millisecond
	probePeers      = 4
	probePatience   = 12
	shuffleInterval = 60 * time.Second
	shuffleTimeout  = 5 * time.Second
	shuffleActive   = 3
	shufflePassive  = 4
	maxAnswered     = 8
	recontactEvery  = 15 * time.Second
	contactInterval = 300 * time.Second
	maxLost         = 16
	maxTries        = 20

	checkInterval = 10 * time.Second
	silentChecks  = 3
	suspicious    = 1500 * time.Millisecond
	answerTimeout = 4 * time.Second
	tellInterval  = time.Second
	leaveWindow   = 300 * time.Second

	cacheFor      = 45 * time.Second
	cacheMessages = 4096
	cacheBytes    = 32 << 20
	seenFor       = 300 * time.Second
	maxSeen       = 100_000
	maxIDs        = 100 // in one IHAVE, GRAFT or list of sources
	announceSince = 3 * time.Second
	unnoticed     = 30 * time.Second // before a link counted as failed
	together      = 10 * time.Second // for which links are silent, and in which they fail, for one reason
	maxAnnounced  = 1000
	lazyDelay     = 400 * time.Millisecond
	lazyInterval  = time.Second
	maxServed     = 3 // copies of one message for one peer, on request

	lostAfter     = 5 * time.Second
	maxMissing    = 10_000
	missingShare  = maxMissing / 4 // that one peer announced first
	maxAnnouncers = 12
	piggyback     = 20 * time.Millisecond
	graftTimeout  = 500 * time.Millisecond
	answerTime    = 50 * time.Millisecond
	mostBackOff   = 8

	leadingWindow = 8
	lateCopy      = lazyDelay/2 + 100*time.Millisecond
)
