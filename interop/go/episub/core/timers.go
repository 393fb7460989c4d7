package core

import "time"

// timer calls f once, at the time that it was last set to.
type timer struct {
	t    *Topic
	f    func()
	at   time.Time
	stop func() // nil while it isn't set
}

func (x *timer) isSet() bool { return x.stop != nil }

func (x *timer) set(at time.Time) {
	x.cancel()
	x.at = at
	x.stop = x.t.after(at.Sub(x.t.port.Now()), func() {
		x.stop = nil
		x.f()
	})
}

func (x *timer) setEarliest(at time.Time) {
	if !x.isSet() || at.Before(x.at) {
		x.set(at)
	}
}

func (x *timer) cancel() {
	if x.isSet() {
		x.stop()
		x.stop = nil
	}
}

// rounds is the timer of all upkeep, Trickle (RFC 6206, section 4.2): intervals that double from least to
// most, with one round at a random time in the second half of each.
type rounds struct {
	timer
	least, most, interval time.Duration
	end                   time.Time // of the interval
}

func (t *Topic) rounds(least, most time.Duration, f func()) rounds {
	return rounds{timer: timer{t: t, f: f}, least: least, most: most}
}

// start begins with the shortest interval.
func (r *rounds) start() {
	r.interval = r.least
	r.begin(r.t.port.Now())
}

// next: a round is done.
func (r *rounds) next() {
	r.interval = min(2*r.interval, r.most)
	if now := r.t.port.Now(); now.After(r.end) {
		r.end = now
	}
	r.begin(r.end)
}

// hasten: something has changed. It begins anew, unless a first round is due.
func (r *rounds) hasten() {
	if r.interval > r.least || !r.isSet() {
		r.start()
	}
}

func (r *rounds) begin(at time.Time) {
	r.end = at.Add(r.interval)
	r.set(at.Add(time.Duration(float64(r.interval) * (0.5 + 0.5*r.t.rng.Float64()))))
}
