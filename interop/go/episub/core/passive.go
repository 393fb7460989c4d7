package core

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// passiveView is an entry each of the peers believed to be in the overlay.
type passiveView []passivePeer

type passivePeer struct {
	id       peer.ID
	group    string // "" where nothing is known
	source   string // the group of the peer that named it, or that peer; "" if it is known otherwise
	measured time.Duration
	badPings int
}

func (v passiveView) find(id peer.ID) *passivePeer {
	for i := range v {
		if v[i].id == id {
			return &v[i]
		}
	}
	return nil
}

func (v passiveView) rtt(id peer.ID) time.Duration {
	if found := v.find(id); found != nil {
		return found.measured
	}
	return 0
}

func (v passiveView) ids(but ...peer.ID) []peer.ID {
	found := []peer.ID{}
	for _, entry := range v {
		if !slices.Contains(but, entry.id) {
			found = append(found, entry.id)
		}
	}
	return found
}

func (v *passiveView) remove(id peer.ID) bool {
	before := len(*v)
	*v = slices.DeleteFunc(*v, func(entry passivePeer) bool { return entry.id == id })
	return len(*v) < before
}

// add remembers a peer that a source named; "" if it is known otherwise. A full view gives up another
// one for it, if the shares allow that.
func (v *passiveView) add(t *Topic, id, source peer.ID, rtt time.Duration) {
	v.exchange(t, []peer.ID{id}, source, nil)
	if entry := v.find(id); entry != nil && entry.measured == 0 {
		entry.measured = rtt
	}
}

// exchange takes peers in. A full view gives up those in `spare` for them first, then others.
func (v *passiveView) exchange(t *Topic, incoming []peer.ID, source peer.ID, spare []peer.ID) {
	spare = slices.DeleteFunc(slices.Clone(spare), func(id peer.ID) bool { return v.find(id) == nil })
	label := string(source)
	if source != "" {
		if group := t.port.Group(source); group != "" {
			label = group
		}
	}
	for _, id := range incoming {
		if id == t.me || t.link(id) != nil || v.find(id) != nil {
			continue
		}
		entry := passivePeer{id: id, group: t.port.Group(id), source: label}
		if len(*v) >= passiveSize {
			victims := v.victims(entry, incoming)
			if !v.shareFull(entry) && len(spare) > 0 {
				victims, spare = spare[:1], spare[1:]
			}
			if len(victims) == 0 {
				continue
			}
			v.remove(t.sample(victims, 1)[0])
		}
		*v = append(*v, entry)
	}
}

func (v passiveView) fromSource(label string) int {
	return v.counted(func(entry passivePeer) bool { return label != "" && entry.source == label })
}

func (v passiveView) inGroup(group string) int {
	return v.counted(func(entry passivePeer) bool { return group != "" && entry.group == group })
}

func (v passiveView) counted(is func(passivePeer) bool) int {
	found := 0
	for _, entry := range v {
		if is(entry) {
			found++
		}
	}
	return found
}

func (v passiveView) shareFull(entry passivePeer) bool {
	return v.fromSource(entry.source) >= passiveShare || v.inGroup(entry.group) >= passiveShare
}

// victims are the entries one of which a new one may replace: those of the same source, or group,
// where that has its share; else those beyond a share; else any. Never those `kept`.
func (v passiveView) victims(added passivePeer, kept []peer.ID) []peer.ID {
	source, group := v.fromSource(added.source) >= passiveShare, v.inGroup(added.group) >= passiveShare
	same, beyond, all := []peer.ID{}, []peer.ID{}, []peer.ID{}
	for _, entry := range v {
		if slices.Contains(kept, entry.id) {
			continue
		}
		all = append(all, entry.id)
		if (!source || entry.source == added.source) && (!group || entry.group == added.group) {
			same = append(same, entry.id)
		}
		if v.fromSource(entry.source) > passiveShare || v.inGroup(entry.group) > passiveShare {
			beyond = append(beyond, entry.id)
		}
	}
	switch {
	case source || group:
		return same
	case len(beyond) > 0:
		return beyond
	}
	return all
}
