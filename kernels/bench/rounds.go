package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// subject is a way of training a net that has been prepared.
type subject struct {
	name    string
	measure func() (float64, error) // µs a step
	samples []float64
	cpu     []float64 // µs of CPU time a step
	peer    *peer     // whose it is, nil for Gaiden's
}

// brief is how long a measurement may take to be one that feels what ran before it,
// which has emptied the caches and let threads fall asleep.
const brief = 500 * time.Millisecond

// warm measures; where it was brief, or another process ran before it, once more, and
// that counts. A process whose ways follow each other would seem the faster: on a CPU
// the first epoch of the FCN after JAX's takes 2 to 4 % longer than the next one. settle
// runs before the one that counts.
func (x *subject) warm(after *subject, settle func() error) (micros float64, err error) {
	began := time.Now()
	if micros, err = x.measure(); err != nil || after != nil && after.peer == x.peer && time.Since(began) > brief {
		return micros, err
	}
	if err := settle(); err != nil {
		return 0, err
	}
	return x.measure()
}

// rounds measures every subject once in each round: the speed of a shared machine
// drifts within minutes, and so it does for all of them. A peer that fails costs its
// own rows.
func (b *bench) rounds(name string, subjects []*subject, settle func() error) error {
	var last *subject
	for range b.turns {
		for _, x := range subjects {
			if x.peer != nil && x.peer.failed {
				continue
			}
			var unsettled error // no fault of a peer's
			var began time.Time
			var used float64
			one, err := x.warm(last, func() error {
				unsettled = settle()
				began, used = time.Now(), cpuTime()
				return unsettled
			})
			if !began.IsZero() {
				x.cpu = append(x.cpu, one*(cpuTime()-used)/time.Since(began).Seconds())
			}
			if unsettled != nil {
				return unsettled
			}
			last = x
			switch {
			case err == nil:
				x.samples = append(x.samples, one)
			case x.peer == nil:
				return fmt.Errorf("%s: %w", x.name, err)
			default:
				b.lose(x.peer, err)
			}
		}
	}
	for i, x := range subjects {
		if x.peer != nil && x.peer.failed {
			continue
		}
		b.addSamples(name, x.name, "µs", x.samples)
		b.addSamples(name+"-cpu", x.name, "µs of CPU time", x.cpu)
		if x.peer == nil {
			continue
		}
		first := i == 0 || subjects[i-1].peer != x.peer
		for _, s := range x.peer.found {
			named := slices.ContainsFunc(subjects, func(x *subject) bool { return x.name == s.Subject })
			if s.Subject == x.name || first && !named { // else it is of no way that was measured
				b.addSamples(s.Case, s.Subject, s.Unit, s.Samples)
			}
		}
	}
	return nil
}

// prepare starts a peer for a net, and waits until it has prepared its subjects: none
// where it has failed, or has no library to measure. One that takes longer than -limit
// costs itself and those behind it: the peer is started again, for those before it only.
func (b *bench) prepare(script string, code []byte, net string, only ...string) (*peer, []*subject, error) {
	p, err := b.startPeer(script, code, append([]string{net}, only...)...)
	if err != nil {
		return nil, nil, err
	}
	var l []*subject
	var names []string
	for {
		s, err := b.await(p)
		switch {
		case err == io.EOF && names == nil:
			return p, nil, nil
		case errors.Is(err, errLimit) && len(names) > 0 && only == nil:
			p.end(0)
			fmt.Fprintf(b.progress, "bench %s: %v: it is started again for %s alone\n", b.name, err, strings.Join(names, ", "))
			return b.prepare(script, code, net, names...)
		case err != nil:
			if err == io.EOF {
				err = errors.New("it ended before all was ready")
			}
			b.lose(p, err)
			return p, nil, nil
		case s.Subjects == nil:
			p.found = append(p.found, s)
		case len(s.Subjects) == 0:
			return p, l, nil
		}
		for _, name := range s.Subjects {
			names = append(names, name)
			l = append(l, &subject{name: name, peer: p, measure: func() (float64, error) { return b.ask(p, name) }})
		}
	}
}

// ask has a peer measure one of its subjects.
func (b *bench) ask(p *peer, subject string) (float64, error) {
	fmt.Fprintln(p.in, subject) // if it has ended, await says how
	s, err := b.await(p)
	switch {
	case err == io.EOF:
		return 0, fmt.Errorf("peer %s: it ended: want a sample of %q", p.script, subject)
	case err != nil:
		return 0, err
	case s.Subject != subject || len(s.Samples) != 1:
		return 0, fmt.Errorf("peer %s: got %d samples of %q, want one of %q", p.script, len(s.Samples), s.Subject, subject)
	}
	return s.Samples[0], nil
}

// errLimit is that of a peer which printed nothing for too long.
var errLimit = errors.New("-limit allows no more")

// await is the next line of a peer, within the limit.
func (b *bench) await(p *peer) (sample, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), b.limit, fmt.Errorf("for %v: %w", b.limit, errLimit))
	defer cancel()
	return p.next(ctx)
}

// lose ends a peer that has failed, and says why.
func (b *bench) lose(p *peer, err error) {
	p.failed = true
	p.end(0)
	fmt.Fprintf(b.progress, "bench %s: no figures of %s: %v\n", b.name, p.script, err)
}
