package timing

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"time"
)

// Times measures several cases alternately and returns one measurement per case. A
// turn is one block of each case in random order, then one block of each in reverse
// order, so that a machine that slows down affects all cases equally. A case that
// panics is dropped; the others continue.
func (t Timer) Times(ctx context.Context, cases ...Case) []Measurement {
	clock, results := t.begin(ctx, cases)
	t.turns(ctx, cases, results, func(run int) bool { return t.more(results, run, mostRuns) })
	t.end(ctx, results, clock)
	return results
}

// Compare measures two cases alternately and compares them, see [Comparison]. It
// stops when the result is conclusive (a difference is proven, or no relevant
// difference is possible), or when Budget is spent on each case. A Clock of 0 means
// 0.05 here: both cases include the cost of the clock, which makes the change appear
// smaller by that share.
func (t Timer) Compare(ctx context.Context, old, new Case) Comparison {
	t.Clock = cmp.Or(t.Clock, 0.05)
	// Turns are short, so that a longer disturbance affects all blocks of a turn.
	blocks := t
	blocks.Budget = min(time.Duration(t.budget()*1e9), usualRuns*shortest)
	cases := []Case{old, new}
	clock, results := blocks.begin(ctx, cases)
	if t.Loops == 0 { // blocks of one length are disturbed alike
		results[0].Loops = max(results[0].Loops, results[1].Loops)
		results[1].Loops = results[0].Loops
	}
	looks := 0
	t.turns(ctx, cases, results, func(run int) bool {
		if run == 2*firstLook<<looks {
			looks++
			if c := paired(results[0], results[1], looks); c.conclusive() || looks == mostLooks {
				return false
			}
		}
		return t.more(results, run, math.MaxInt)
	})
	t.end(ctx, results, clock)
	if looks == 0 || results[0].N() > 2*firstLook<<(looks-1) {
		looks++ // at what has come since the last one
	}
	return paired(results[0], results[1], looks)
}

const (
	shortest  = 500 * time.Microsecond // of a block, in a comparison
	firstLook = 12                     // turns before the first interim test; each later test has twice as many
	mostLooks = 8                      // 1536 turns: beyond that, the test takes longer than the turns
)

// begin makes the first call of each case and finds its number of loops. clock is
// what reading it costs.
func (t Timer) begin(ctx context.Context, cases []Case) (clock float64, results []Measurement) {
	results = make([]Measurement, len(cases))
	turns := rand.Uint64() | 1
	for i, c := range cases {
		results[i] = Measurement{Name: c.Name, Time: time.Now().UTC()}
		if len(cases) > 1 {
			results[i].Turns = turns
		}
	}
	if err := t.check(); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return 0, results
	}
	clock = t.clock()
	for i := range results {
		t.prepare(ctx, &results[i], cases[i], clock)
	}
	for i := range results {
		results[i].Device = t.Sync != nil && (t.Present == nil || t.Present())
	}
	runtime.GC() // what set-up left behind is not the fault of the first samples
	return clock, results
}

// turns measures blocks while more says so of their number, and not beyond the
// end of ctx.
func (t Timer) turns(ctx context.Context, cases []Case, results []Measurement, more func(run int) bool) {
	var order []int
	for run := 0; ctx.Err() == nil && more(run); run++ {
		if run%2 == 0 {
			order = rand.Perm(len(cases))
		}
		for i := range order {
			turn := order[i]
			if run%2 == 1 {
				turn = order[len(order)-1-i]
			}
			if m := &results[turn]; m.Err == nil && !m.Partial {
				s, host, err := t.block(cases[turn], m.Loops)
				if err != nil {
					m.Err = err.at(run + 1)
					continue
				}
				m.Samples = append(m.Samples, s/float64(m.Loops))
				m.alone(host)
				if t.Each != nil {
					t.Each(m.copy())
				}
			}
		}
	}
}

// more says whether another run is wanted of the cases that still run.
func (t Timer) more(results []Measurement, run, most int) bool {
	running, spent := 0, 0.0
	for i := range results {
		if m := &results[i]; m.Err == nil && !m.Partial {
			running++
			for _, s := range m.Samples {
				spent += s * float64(m.Loops)
			}
		}
	}
	switch {
	case running == 0:
		return false
	case t.Runs > 0:
		return run < t.Runs
	case run < leastRuns:
		return true
	}
	return run < most && spent < t.budget()*float64(running)
}

// end marks what was stopped and writes the warnings.
func (t Timer) end(ctx context.Context, results []Measurement, clock float64) {
	for i := range results {
		m := &results[i]
		m.Partial = m.Partial || m.Err == nil && ctx.Err() != nil && (len(m.Samples) < t.Runs || t.Runs == 0)
		m.judge(clock, t.clockShare())
	}
}
