package profile

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
)

// Batches is the core time of a net, forward and backward, for batches of 2^n:
// the question of article 004.
type Batches struct {
	Net, Model, Device string
	Points             []BatchPoint
	Partial            bool
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

// SweepBatches measures batches of 1, 2, 4, … up to most examples, runs times
// each (0 means 100), as far as the data reaches. When ctx ends it returns what
// is known, marked Partial.
func SweepBatches(ctx context.Context, net *fit.Net, data *fit.Set, most, runs int, progress func(string)) (*Batches, error) {
	if data == nil {
		return nil, fmt.Errorf("profile: %s: no data set: load one first, or take one with Synthetic", net.Name())
	}
	if most < 1 || most > data.N {
		most = data.N
	}
	if runs == 0 {
		runs = 100
	}
	s, err := net.Session()
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	b := &Batches{Net: net.Name(), Model: net.Model().Name, Device: deviceName(s)}
	progress("compiling")
	all, err := compileBatches(ctx, net, data, most)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	for log, p := range all {
		batch := 1 << log
		if ctx.Err() != nil {
			break
		}
		all[log] = nil // its arrays may go when it is done
		progress(fmt.Sprintf("batch %d", batch))
		if err := p.Next(); err != nil {
			return nil, err
		}
		timer := timing.Timer{Runs: runs, Loops: 1, Sync: waiting(s), Budget: time.Second}
		core := timer.TimeContext(ctx, fmt.Sprintf("batch %d", batch), func() {
			check(p.Forward())
			check(p.Loss())
			check(p.Backward())
		})
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

// compileBatches makes the phases of each batch size ready. A size is a shape of
// its own, which XLA compiles anew: a few of them at the same time, since each
// needs memory to be compiled.
func compileBatches(ctx context.Context, net *fit.Net, data *fit.Set, most int) ([]*fit.Phases, error) {
	n := bits.Len(uint(most))
	all, failed := make([]*fit.Phases, n), make([]error, n)
	var done sync.WaitGroup
	turn := make(chan bool, 4)
	for log := range n {
		done.Go(func() {
			turn <- true
			defer func() { <-turn }()
			all[log], failed[log] = net.Phases(ctx, data, 1<<log)
		})
	}
	done.Wait()
	return all, errors.Join(failed...)
}
