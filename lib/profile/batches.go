package profile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/fit/phases"
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
)

// Batches is the core time of a net, forward and backward, for batches of 2^n:
// the question of notebook 08's article.
type Batches struct {
	Net, Model, Device string
	Points             []BatchPoint
	Left               []int // sizes that were left out, see [SweepOptions]
	Partial            bool
}

// SweepOptions say what [SweepBatches] measures. The zero value is a hundred
// runs of each size that the data has examples for.
type SweepOptions struct {
	Most int // examples of the largest batch; 0 means all the data
	Runs int // of each size; 0 means 100

	// Compile is after how long no further size is compiled; 0
	// means never. Those that tell most come first: the smallest, the largest,
	// then what halves the gaps between them.
	Compile time.Duration

	// Progress is told what is being done.
	Progress func(string)
}

// A BatchPoint is one batch size.
type BatchPoint struct {
	Batch int
	// Core is forward, loss and backward of a batch, each run waited for.
	Core timing.Measurement
}

// Mean and Variance are those of the samples, in seconds and seconds², as the
// article gives them. Medians tell more where something else ran meanwhile.
func (p BatchPoint) Mean() float64 { return stats.Mean(p.Core.Samples) }

// Variance is the square of the standard deviation.
func (p BatchPoint) Variance() float64 {
	d := stats.StdDev(p.Core.Samples)
	return d * d
}

// SweepBatches measures batches of 1, 2, 4, … examples. When ctx ends it returns
// what is known, marked Partial.
func SweepBatches(ctx context.Context, net *fit.Net, data *fit.Set, o SweepOptions) (*Batches, error) {
	switch {
	case data == nil:
		return nil, fmt.Errorf("profile: %s: no data set: want one that Upload, Stream or Data has returned, or one by Synthetic", net.Name())
	case o.Runs < 0:
		return nil, fmt.Errorf("profile: %s: got %d runs of each batch, want 1 or more, or 0 for 100", net.Name(), o.Runs)
	case o.Most < 0:
		return nil, fmt.Errorf("profile: %s: got batches of up to %d examples, want 1 or more, or 0 for all the data", net.Name(), o.Most)
	case o.Compile < 0:
		return nil, fmt.Errorf("profile: %s: got %v to compile in, want more than none, or 0 for no limit", net.Name(), o.Compile)
	}
	if o.Most < 1 || o.Most > data.N {
		o.Most = data.N
	}
	o.Runs = cmp.Or(o.Runs, 100)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	s, err := net.Session()
	if err != nil {
		return nil, err
	}
	b := &Batches{Net: net.Name(), Model: net.Model().Name, Device: deviceName(s)}
	all, err := compileBatches(ctx, net, data, o)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	for log, p := range all {
		batch := 1 << log
		if ctx.Err() != nil {
			break
		}
		if p == nil {
			b.Left = append(b.Left, batch)
			continue
		}
		o.Progress(fmt.Sprintf("batch %d", batch))
		if err := p.Next(); err != nil {
			return nil, err
		}
		timer := timing.Timer{Runs: o.Runs, Loops: 1, Sync: waiting(s), Budget: time.Second}
		core := timer.TimeContext(ctx, fmt.Sprintf("batch %d", batch), func() {
			check(p.Forward())
			check(p.Loss())
			check(p.Backward())
		})
		p.Close()
		if core.Err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("profile: %s: %w", net.Name(), core.Err)
		}
		if core.N() > 0 {
			b.Points = append(b.Points, BatchPoint{batch, core})
		}
	}
	b.Partial = ctx.Err() != nil
	return b, nil
}

// compileBatches makes the phases of each batch size ready, nil for those that
// there was no time for. A size is a shape of its own, which XLA compiles again: a
// few of them at the same time, since each needs memory to be compiled.
func compileBatches(ctx context.Context, net *fit.Net, data *fit.Set, o SweepOptions) ([]*phases.Step, error) {
	n := bits.Len(uint(o.Most))
	all, failed := make([]*phases.Step, n), make([]error, n)
	turns := make(chan int, n)
	for _, log := range spread(n) {
		turns <- log
	}
	close(turns)
	began := time.Now()
	var done sync.WaitGroup
	var told sync.Mutex   // Progress is told one thing at a time
	for range min(n, 3) { // the two ends, and what comes next
		done.Go(func() {
			for log := range turns {
				if ctx.Err() != nil || o.Compile > 0 && time.Since(began) > o.Compile {
					return
				}
				told.Lock()
				o.Progress(fmt.Sprintf("compiling batch %d", 1<<log))
				told.Unlock()
				all[log], failed[log] = net.WithContext(ctx).Phases(data, 1<<log)
			}
		})
	}
	done.Wait()
	return all, errors.Join(failed...)
}

// spread is 0 to n-1 in an order in which any first part is spread over all: the
// ends, their middle, the middles of the halves, and so on.
func spread(n int) []int {
	order := []int{0}
	if n > 1 {
		order = append(order, n-1)
	}
	for sorted := slices.Clone(order); len(order) < n; {
		var middles []int
		for i := range len(sorted) - 1 {
			if m := (sorted[i] + sorted[i+1]) / 2; m > sorted[i] {
				middles = append(middles, m)
			}
		}
		order, sorted = append(order, middles...), append(sorted, middles...)
		slices.Sort(sorted)
	}
	return order
}
