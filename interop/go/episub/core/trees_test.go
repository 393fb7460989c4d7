package core

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"episub-interop/internal/hosts"
	"episub-interop/internal/payload"
	"episub-interop/internal/pb"
	"episub-interop/internal/proofs"
)

var last = []byte("a proof.") // of the author's second round

// author publishes along a tree that a topic under test takes part in.
type author struct {
	n      *network
	topic  *Topic
	source string
	next   func() *pb.Message
}

// rooted is a topic with so many links, to which each has brought the ROOT of an author's tree; the first
// one is its parent.
func rooted(t *testing.T, links int) author {
	n, topic := alone(t, links)
	key, err := hosts.KeyOf(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	next := func() *pb.Message {
		count++
		message, err := payload.StrictSign.New(key, "t", []byte(fmt.Sprint(count)))
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
	a := author{n, topic, sourceOf(next().From), next}
	for _, l := range topic.links {
		topic.onRoot(l, &pb.Root{Roots: []*pb.TreeRoot{
			{Source: []byte(a.source), Round: proto.Uint32(1), Cost: proto.Uint32(1000), Proof: proofs.Earlier(last, 1)},
		}})
		n.run(time.Millisecond)
	}
	n.run(2 * treeSettle)
	return a
}

// run has time pass in which the neighbours send other things.
func (a author) run(d time.Duration) {
	a.n.run(d)
	for _, l := range a.topic.links {
		l.heardAt = a.n.now
	}
}

// gossip has a message come from a neighbour, after it was asked for or not.
func (a author) gossip(from *link, asked bool) string {
	message := a.next()
	id := payload.StrictSign.ID(message)
	if asked {
		a.announce(from, id)
		a.run(100 * time.Millisecond)
	}
	_ = a.topic.Gossip(from.id, message, &pb.Gossip{Hops: proto.Uint32(2), OwnTree: proto.Bool(true)})
	return id
}

func (a author) announce(from *link, id string) {
	a.topic.onIHave(from, &pb.IHave{Summary: []*pb.MessageSummary{{Id: []byte(id), Hops: proto.Uint32(2)}}})
}

func TestTheFirstThatBroughtRootIsTheParentAndTheNextOnesStandBy(t *testing.T) {
	a := rooted(t, 4)
	tr := a.topic.trees.known[a.source]
	if tr.parent != a.topic.links[0].id || len(tr.asked) != 1+standbys {
		t.Errorf("%s, %v", tr.parent, tr.asked)
	}
	for _, l := range a.topic.links[1:3] {
		if role, told := tr.asked[l.id]; !told || role != announces {
			t.Errorf("%s is no standby", l.id)
		}
	}
}

func TestALostParentIsReplacedAtOnce(t *testing.T) {
	a := rooted(t, 4)
	tr, second := a.topic.trees.known[a.source], a.topic.links[1]
	before := a.n.sent["graft"]
	a.topic.Down(tr.parent)
	if tr.parent != second.id || a.n.sent["graft"] != before+1 {
		t.Errorf("%s", tr.parent)
	}
}

func TestWhatBringsTheMessagesThatTheParentMissesReplacesIt(t *testing.T) {
	a := rooted(t, 4)
	tr, other := a.topic.trees.known[a.source], a.topic.links[3]
	for i := range adoptAfter {
		if tr.parent == other.id {
			t.Errorf("after %d messages", i)
		}
		a.gossip(other, true)
	}
	if tr.parent != other.id {
		t.Error("the parent stays")
	}
}

func TestAParentThatOnlyAnnouncesIsReplaced(t *testing.T) {
	a := rooted(t, 4)
	tr, censor, other := a.topic.trees.known[a.source], a.topic.links[0], a.topic.links[3]
	for range 2 * adoptAfter {
		a.announce(censor, a.gossip(other, true))
	}
	if tr.parent == censor.id {
		t.Error("it stays")
	}
}

func TestASilentParentGivesWayToAnotherThatIsNearerThanThisNode(t *testing.T) {
	a := rooted(t, 4)
	tr, second, other := a.topic.trees.known[a.source], a.topic.links[1], a.topic.links[3]
	tr.forgetOffer(other.id) // it is no nearer, and no parent
	for range adoptAfter {
		a.gossip(other, true)
	}
	if tr.parent != second.id {
		t.Errorf("the parent is %s", tr.parent)
	}
}

func TestAParentThatStillSendsOtherMessagesStays(t *testing.T) {
	a := rooted(t, 4)
	tr, parent, other := a.topic.trees.known[a.source], a.topic.links[0], a.topic.links[3]
	tr.forgetOffer(other.id)
	for range adoptAfter {
		a.gossip(other, true)
		parent.payloadAt = a.n.now
	}
	if tr.parent != parent.id {
		t.Errorf("the parent is %s", tr.parent)
	}
}

func TestAParentThatMissesManyHasFailed(t *testing.T) {
	a := rooted(t, 2)
	tr, censor, other := a.topic.trees.known[a.source], a.topic.links[0], a.topic.links[1]
	tr.children = []peer.ID{other.id} // it can't be the parent yet
	for range 2 * failedAfter {
		a.run(time.Second)
		a.gossip(other, true)
	}
	if tr.parent == censor.id || tr.offerOf(censor.id) != nil {
		t.Error("it is still asked to push")
	}
	root := &pb.TreeRoot{Source: []byte(a.source), Round: proto.Uint32(2), Proof: last}
	if a.topic.onTreeRoot(censor, root) {
		t.Error("its ROOT counts")
	}
	a.n.now = a.n.now.Add(failedFor)
	if !a.topic.onTreeRoot(censor, root) {
		t.Error("it is never asked again")
	}
}

func TestANewRoundCountsFromThoseAloneThatHaveServed(t *testing.T) {
	a := rooted(t, 3)
	parent, other := a.topic.links[0], a.topic.links[1]
	root := &pb.TreeRoot{Source: []byte(a.source), Round: proto.Uint32(2), Proof: last}
	for range adoptAfter {
		a.gossip(other, true)
	}
	if a.topic.onTreeRoot(parent, root) {
		t.Error("it missed what others brought")
	}
	if !a.topic.onTreeRoot(other, root) {
		t.Error("others bring it, too")
	}
}

func TestOneThatOwesWhatItAnnouncedBringsNoNewRound(t *testing.T) {
	a := rooted(t, 3)
	parent, other := a.topic.links[0], a.topic.links[1]
	root := &pb.TreeRoot{Source: []byte(a.source), Round: proto.Uint32(2), Proof: last}
	for _, l := range []*link{parent, other} {
		for _, id := range []string{"m", "n"} {
			l.promises.asked[id] = a.n.now
		}
	}
	a.n.now = a.n.now.Add(lateAnswer + time.Millisecond)
	if a.topic.onTreeRoot(other, root) {
		t.Error("who withholds in one tree does so in others")
	}
	if !a.topic.onTreeRoot(parent, root) {
		t.Error("it serves")
	}
}

func TestAParentThatOwesWhatItAnnouncedIsReplacedWithItsFirstMiss(t *testing.T) {
	a := rooted(t, 3)
	parent, other := a.topic.links[0], a.topic.links[1]
	parent.promises.asked["m"] = a.n.now
	a.n.now = a.n.now.Add(lateAnswer + time.Millisecond)
	a.gossip(other, true)
	if tr := a.topic.trees.known[a.source]; tr.parent != other.id {
		t.Error("it stays")
	}
}

func TestALateParentGivesWayAndDoesNotFail(t *testing.T) {
	tr := &tree{services: map[peer.ID]*service{}}
	for i := range 2 * failedAfter {
		if tr.noteMissed("a", time.Unix(int64(i), 0)) {
			t.Fatal("it has failed")
		}
		tr.noteLate("a")
	}
	if tr.serviceOf("a").missed != adoptAfter {
		t.Error("it stays")
	}
}

func TestARoundThatItsSourceHasNotSentIsIgnored(t *testing.T) {
	a := rooted(t, 2)
	liar, honest := a.topic.links[0], a.topic.links[1]
	known := proofs.Earlier(last, 1)
	for _, line := range []*pb.TreeRoot{
		{Source: []byte(a.source), Round: proto.Uint32(2), Proof: known},
		{Source: []byte(a.source), Round: proto.Uint32(2), Proof: []byte("made up.")},
		{Source: []byte(a.source), Round: proto.Uint32(3), Proof: last},
		{Source: []byte(a.source), Round: proto.Uint32(2000), Proof: last},
	} {
		if a.topic.onTreeRoot(liar, line) {
			t.Errorf("round %d counts", line.GetRound())
		}
	}
	if !a.topic.onTreeRoot(honest, &pb.TreeRoot{Source: []byte(a.source), Round: proto.Uint32(2), Proof: last}) {
		t.Error("the source's own doesn't")
	}
}

func TestAnotherChainIsBelievedOnceTheParentHasMissedAMessage(t *testing.T) {
	a := rooted(t, 2)
	other := a.topic.links[1]
	own := &pb.TreeRoot{Source: []byte(a.source), Round: proto.Uint32(7), Proof: []byte("another.")}
	if a.topic.onTreeRoot(other, own) {
		t.Error("the parent serves")
	}
	a.gossip(other, true)
	a.run(retryRoot)
	if !a.topic.onTreeRoot(other, own) {
		t.Error("the first was believed for ever")
	}
}

func TestTheSourceItselfIsBelievedWhateverWasHeardFirst(t *testing.T) {
	a := rooted(t, 2)
	liar, source := a.topic.links[0], a.topic.links[1]
	line := func(proof string) *pb.TreeRoot {
		return &pb.TreeRoot{Source: []byte(sourceOf([]byte(source.id))), Round: proto.Uint32(1), Proof: []byte(proof)}
	}
	if !a.topic.onTreeRoot(liar, line("made up.")) || !a.topic.onTreeRoot(source, line("its own.")) {
		t.Error("what comes first counts, and what the source says")
	}
	if a.topic.onTreeRoot(liar, line("made up.")) {
		t.Error("the liar is believed again")
	}
}

func TestNoNeighbourFillsTheTrees(t *testing.T) {
	a := rooted(t, 2)
	for i := range 2 * keptTrees {
		a.run(time.Second / 10)
		a.topic.onRoot(a.topic.links[0], &pb.Root{Roots: []*pb.TreeRoot{
			{Source: fmt.Appendf(nil, "%08d", i), Round: proto.Uint32(1), Proof: last},
		}})
	}
	if len(a.topic.trees.known) != keptTrees || len(a.topic.trees.order) != keptTrees || !a.topic.roomForTree() {
		t.Errorf("%d trees", len(a.topic.trees.known))
	}
}
