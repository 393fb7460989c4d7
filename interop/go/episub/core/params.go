package core

import "time"

// Parameters of docs/wire.md: of the overlay in sections 6 and 11, of the trees in 6 and 12. What a
// duration is for stands there.
const (
	activeSize   = 8
	activeBound  = 13
	activeShare  = 2 // a quarter of the view: links of one group
	maxInNeed    = 2 // links beyond A for peers that lack some
	randomLinks  = 4
	nearLinks    = 4
	rings        = 2
	passiveSize  = 48
	passiveShare = 12 // a quarter of the view: entries of one group, or that one named

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

	contactsAsked = 8
	maxContacts   = 64
	maxAsked      = 32
	nodesTaken    = 16
	nodesGiven    = 8
	nodesSampled  = 2 // random ones of those
	namedEach     = 2 // of the others: on either side of each ring
	nodesBetween  = 2 // asked of a peer that answered a request
	nodesTimeout  = 3 * time.Second
	joinTimeout   = 5 * time.Second
	joinLifetime  = 30 * time.Second
	maxJoiners    = 1024 // peers that asked for nodes
	joinersFor    = time.Hour

	searchContacts = 160 * time.Second // between rounds, up to which a contact is asked, too
	searchAgain    = 20 * time.Second  // after a link was lost
	rememberedEach = 3                 // on either side of each ring
	maxLost        = 16
	maxTries       = 20
	triedAtOnce    = 2

	requestTimeout = 5 * time.Second
	refusedBackoff = 120 * time.Second
	refusedInNeed  = 10 * time.Second // while there are fewer than randomLinks
	maxRefused     = 64
	maxMeasuring   = 64 // peers that asked for a link
	listTimeout    = time.Second
	rttAdvantage   = 2
	rttMinGain     = 5 * time.Millisecond
	maxBadPings    = 3
	measuredFirst  = 3 // neighbours that never were
	probePeers     = 4
	probedEagerly  = 128 // passive peers, at the shortest interval
	shuffleTimeout = 5 * time.Second
	shuffleActive  = 3
	shufflePassive = 4
	maxAnswered    = 8

	silentQueries = 3
	suspicious    = 1500 * time.Millisecond
	answerTimeout = 4 * time.Second
	tellInterval  = time.Second
	leaveWindow   = 300 * time.Second

	cacheFor      = 45 * time.Second
	cacheMessages = 4096
	cacheBytes    = 32 << 20
	seenFor       = 300 * time.Second
	maxSeen       = 65_536
	maxHolders    = 32
	maxIDs        = 100 // in one IHAVE, GRAFT or list of sources
	announceSince = 3 * time.Second
	newcomer      = 6 * time.Second  // what came then isn't announced to new neighbours
	together      = 10 * time.Second // in which links fail for one reason
	maxAnnounced  = 750
	lazyDelay     = 400 * time.Millisecond
	lazyInterval  = time.Second
	largeMessage  = 16 << 10 // bytes, for each of which announcements wait so long
	largeTakes    = 32 * time.Millisecond
	maxQueued     = 5_000
	maxServed     = 3 // copies of one message for one peer, on request

	lostAfter   = 5 * time.Second
	maxMissing  = 10_000
	maxEach     = 750 // that one peer announced first
	piggyback   = 20 * time.Millisecond
	lateAnswer  = 500 * time.Millisecond
	answerTime  = 50 * time.Millisecond
	mostBackOff = 8
	firstLag    = 20 * time.Millisecond
	mostLag     = 500 * time.Millisecond
	lagMargin   = 5 * time.Millisecond
	maxPromises = 8
	silence     = 15 * time.Second // without a payload, after which a promise is broken
	longestWait = 60 * time.Second // whatever else comes

	leadingWindow = 8
	floodHops     = 2 // links that a message of a source without a tree is pushed over to everybody

	sourceSize = 8 // bytes
	standTrees = 64
	keptTrees  = 100
	standbys   = 2

	treeSetup     = 500 * time.Millisecond // until a tree is used
	treeSettle    = 500 * time.Millisecond // until former parents are left, and standbys are asked
	treeIdle      = 120 * time.Second
	chooseAfter   = 10 * time.Millisecond
	nearParent    = 5 * time.Millisecond
	muchNearer    = 4
	retryRoot     = time.Second
	renewRoot     = 20 * time.Second // after so many messages
	renewMessages = 3
	refreshRoot   = treeIdle / 2    // or the next message may find the tree gone
	leastRoot     = 5 * time.Second // between ROOTs, however many nodes ask
	mostCost      = 60_000_000      // microseconds
	unknownDelay  = 50_000
	adoptAfter    = 2 // messages that another neighbour had to bring
	failedAfter   = 6 // messages more that a neighbour missed than it served, ...
	failedWithin  = 3 * time.Second
	failedFor     = 120 * time.Second // twice as long each time
	mostFailedFor = 960 * time.Second
	keepStandby   = 20 * time.Millisecond // by which it is preferred to a neighbour that is none
)
