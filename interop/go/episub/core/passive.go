package core

import (
	"cmp"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
)

// passiveView is an entry each of the peers believed to be in the overlay. Ids are cheap to make up, so an
// entry is labelled with its own group and with that of the peer that named it, and in a full view what
// has a label that fills its share replaces its like.
type passiveView []passivePeer

type passivePeer struct {
	id       peer.ID
	labels   []string
	measured *roundTrip
}

func (v passiveView) find(id peer.ID) *passivePeer {
	for i := range v {
		if v[i].id == id {
			return &v[i]
		}
	}
	return nil
}

func (v passiveView) rtt(id peer.ID) *roundTrip {
	if found := v.find(id); found != nil {
		return found.measured
	}
	return nil
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

// add remembers a peer that a source named; "" if it is known otherwise.
func (v *passiveView) add(t *Topic, id, source peer.ID, rtt *roundTrip) {
	v.exchange(t, []peer.ID{id}, source, nil)
	if entry := v.find(id); entry != nil && entry.measured == nil {
		entry.measured = rtt
	}
}

// exchange takes peers in, in place of those given away first where it is full.
func (v *passiveView) exchange(t *Topic, incoming []peer.ID, source peer.ID, given []peer.ID) {
	spare := slices.DeleteFunc(slices.Clone(given), func(id peer.ID) bool { return v.find(id) == nil })
	named := []string{}
	if source != "" {
		named = append(named, cmp.Or(t.port.Group(source), string(source)))
	}
	for _, id := range incoming {
		if id == t.me || t.link(id) != nil || v.find(id) != nil {
			continue
		}
		labels := slices.Clone(named)
		if group := t.port.Group(id); group != "" && !slices.Contains(named, group) {
			labels = append(labels, group)
		}
		if len(*v) >= passiveSize {
			victims, full := v.victims(labels, incoming)
			if !full && len(spare) > 0 {
				victims, spare = spare[:1], spare[1:]
			}
			if len(victims) == 0 {
				continue
			}
			v.remove(t.sample(victims, 1)[0])
		}
		*v = append(*v, passivePeer{id: id, labels: labels})
	}
}

// victims are the entries one of which a new one may replace: those with the same of its labels that fill
// their shares, if any do; else those with a label beyond its share; else any. Never those `kept`.
func (v passiveView) victims(labels []string, kept []peer.ID) (found []peer.ID, full bool) {
	counts := map[string]int{}
	for _, entry := range v {
		for _, label := range entry.labels {
			counts[label]++
		}
	}
	filled := slices.DeleteFunc(slices.Clone(labels), func(label string) bool {
		return counts[label] < passiveShare
	})
	same, beyond, all := []peer.ID{}, []peer.ID{}, []peer.ID{}
	for _, entry := range v {
		if slices.Contains(kept, entry.id) {
			continue
		}
		all = append(all, entry.id)
		if !slices.ContainsFunc(filled, func(label string) bool { return !slices.Contains(entry.labels, label) }) {
			same = append(same, entry.id)
		}
		if slices.ContainsFunc(entry.labels, func(label string) bool { return counts[label] > passiveShare }) {
			beyond = append(beyond, entry.id)
		}
	}
	switch {
	case len(filled) > 0:
		return same, true
	case len(beyond) > 0:
		return beyond, false
	}
	return all, false
}
