// Package timing measures how long work takes, on the host or on a device, and how
// reliable the result is.
//
// A [Timer] runs a function until the result is stable and returns a [Measurement]:
// all samples, their median and their spread. The first call, which may compile, is
// timed separately and is not a sample. The zero Timer is ready to use on the host.
// To time a device, set Sync to a function that waits for it, so that the clock is
// read only when the device is idle:
//
//	t := timing.Timer{Sync: dev.Wait}
//	a := timing.Call("LeNet5 batch 128", func() { small.MustCall(x, y) })
//	b := timing.Call("LeNet5, fused", func() { other.MustCall(x, y) })
//	fmt.Println(t.Times(ctx, a)[0]) // LeNet5 batch 128   1.42 ms ± 2 %   median of 31 blocks of 16   first call 2.31 s, not counted
//	fmt.Println(t.Compare(ctx, a, b)) // -4.9% (-5.4% to -4.3%)   p<0.001 n=24 turns (Wilcoxon signed rank)
//
// A sample is one block of Loops consecutive calls, divided by Loops. The Timer
// chooses Loops so that reading the clock, and waiting for an idle device, take less
// than a thousandth of a block.
//
// To compare two functions, use [Timer.Compare]. It measures them alternately, so
// that disturbances affect both, until the result is conclusive. [Compare] compares
// two measurements that already exist.
//
// # What it refuses
//
// Package timing knows nothing about models and prints nothing. It does not hide
// doubt: a doubtful result carries warnings, a stopped one is marked Partial, and one
// that panicked has the panic in Err and keeps its samples. Package report turns
// results into tables; packages stats and units compute the statistics and format the
// numbers.
package timing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"gaiden/lib/timing/stats"
)

// A Timer says how to measure. The zero value is right for the host.
type Timer struct {
	// Sync waits until the device is idle. Nil means that there is no device.
	Sync func()

	// Present reports, after the first call, whether Sync has a device to wait for.
	// Nil means that it has.
	Present func() bool

	// Budget is the time to spend on the samples of one function; 0 means one second.
	// It does not include the first call and the search for Loops. A function that
	// takes longer than the budget still runs three times.
	Budget time.Duration

	// Runs is the number of samples, like -r of %timeit. 0 means as many as the
	// budget allows, at most 1000.
	Runs int

	// Loops is the number of calls in each sample, like -n of %timeit. 0 means that
	// the Timer chooses it.
	Loops int

	// Clock is the maximum share of a sample that reading the clock may take, waits
	// for the device included; 0 means 0.001. A larger share makes short measurements
	// of a device faster.
	Clock float64

	// Each, if not nil, receives the current measurement after each sample. If a stop
	// cannot wait for a long call to end, the last one received is the result.
	Each func(Measurement)
}

// A Case is a function to measure.
type Case struct {
	Name string
	// Loop does the work n times. A loop in the function itself saves the overhead of
	// a call per iteration, which matters below 10 ns.
	Loop func(n int)
}

// Call returns a case that calls f.
func Call(name string, f func()) Case {
	if f == nil {
		return Case{Name: name}
	}
	return Case{Name: name, Loop: func(n int) {
		for range n {
			f()
		}
	}}
}

const (
	clockShare = 1000 // a block is so many times longer than a reading of the clock
	mostRuns   = 1000
	leastRuns  = 3
	usualRuns  = 50 // blocks that a budget is divided into
)

// Time measures f. It does not fail: see Measurement.Err.
func (t Timer) Time(name string, f func()) Measurement {
	return t.TimeContext(context.Background(), name, f)
}

// TimeContext measures f until ctx is done, which it checks between two blocks. A
// stopped measurement has the samples so far and is marked Partial.
func (t Timer) TimeContext(ctx context.Context, name string, f func()) Measurement {
	return t.Times(ctx, Call(name, f))[0]
}

func (t Timer) clockShare() float64 { return cmp.Or(t.Clock, 1.0/clockShare) }

func (t Timer) check() error {
	switch {
	case !(t.Clock >= 0 && t.Clock < 1):
		return fmt.Errorf("timing: got %g as the clock's share, want more than 0 and less than 1, or 0 for 0.001", t.Clock)
	case t.Runs < 0:
		return fmt.Errorf("timing: got %d runs, want 1 or more, or 0 for as many as the budget allows", t.Runs)
	case t.Loops < 0:
		return fmt.Errorf("timing: got %d loops, want 1 or more, or 0 to have them found", t.Loops)
	case t.Budget < 0:
		return fmt.Errorf("timing: got a budget of %v, want more than none, or 0 for one second", t.Budget)
	}
	return nil
}

func (t Timer) budget() float64 {
	if t.Budget == 0 {
		return 1
	}
	return t.Budget.Seconds()
}

// clock is the cost in seconds of one block that does nothing: two readings
// and a wait for a device that is idle already.
func (t Timer) clock() float64 {
	costs := make([]float64, 32)
	for i := range costs {
		s, _, err := t.block(Case{Loop: func(int) {}}, 0)
		if err != nil {
			return 0 // Sync panics; the first real block will say so
		}
		costs[i] = s
	}
	return stats.Median(costs)
}

// block is one reading of the clock around n times the work. The device is
// idle at both ends. host is when the work returned, before the device was idle
// again.
func (t Timer) block(c Case, n int) (seconds, host float64, failed *PanicError) {
	defer func() {
		if value := recover(); value != nil {
			failed = &PanicError{Name: c.Name, Value: value, Stack: debug.Stack()}
		}
	}()
	if t.Sync != nil {
		t.Sync()
	}
	start := time.Now()
	c.Loop(n)
	if t.Sync == nil {
		seconds = time.Since(start).Seconds()
		return seconds, seconds, nil
	}
	host = time.Since(start).Seconds()
	t.Sync()
	return time.Since(start).Seconds(), host, nil
}

// prepare makes the first call and finds the number of loops.
func (t Timer) prepare(ctx context.Context, m *Measurement, c Case, clock float64) {
	if ctx.Err() != nil {
		m.Partial = true
		return
	}
	if c.Loop == nil {
		m.Err = fmt.Errorf("timing: %s: got no function, want Case.Loop, or timing.Call", c.Name)
		return
	}
	first, _, err := t.block(c, 1)
	if err != nil {
		m.Err = err.at(0)
		return
	}
	m.First, m.Loops = first, max(t.Loops, 1)
	if t.Loops > 0 {
		return
	}
	runs := cmp.Or(t.Runs, usualRuns)
	want := max(clock/t.clockShare(), t.budget()/float64(runs))
	for ctx.Err() == nil {
		// On a busy machine one block may seem long because something else
		// ran in it: the goal is reached if three are long enough, unless
		// one fills the budget by itself.
		took := math.Inf(1)
		for try := 0; try < 3 && took >= want && (try == 0 || took < t.budget()/3); try++ {
			again, host, err := t.block(c, m.Loops)
			if err != nil {
				m.Err = err.at(0)
				return
			}
			m.alone(host)
			took = min(took, again)
		}
		if took >= want || m.Loops >= 1e9 {
			return
		}
		// Short blocks tell little: grow by steps, and never past the
		// goal by more than the rounding.
		next := min(want/max(took, 1e-9), 100) * float64(m.Loops)
		m.Loops = max(round(next), m.Loops+1)
	}
}

// round returns the next number up of 1, 2, 5, 10, 20, 50, …
func round(n float64) int {
	power := math.Pow(10, math.Floor(math.Log10(max(n, 1))))
	for _, step := range []float64{1, 2, 5} {
		if step*power >= n*(1-1e-9) {
			return int(step * power)
		}
	}
	return int(10 * power)
}

// A PanicError reports a function that panicked while it was measured.
type PanicError struct {
	Name  string
	Run   int // from 1; 0 is before the first sample
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	what := "panic"
	if err := e.Unwrap(); err != nil && !errors.As(err, new(runtime.Error)) { // must, in a cell: the error is what matters
		what = "failed"
	}
	return fmt.Sprintf("timing: %s: %s %s: %v", e.Name, what, e.When(), e.Value)
}

// When returns the run that panicked: "in run 37", "before the first run".
func (e *PanicError) When() string {
	if e.Run == 0 {
		return "before the first run"
	}
	return fmt.Sprintf("in run %d", e.Run)
}

// Unwrap returns the panic's value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func (e *PanicError) at(run int) error {
	e.Run = run
	return e
}

const errStopped = Warning("timing: stopped before it was done")
