package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"gaiden/lib/session"
	"gaiden/lib/timing"
	"gaiden/lib/timing/units"
)

// Timeit is %timeit: it measures a loop and shows the result in IPython's format. The
// zero value is %timeit without options.
type Timeit struct {
	Runs   int  // samples (-r); 0 means 7, as in IPython
	Loops  int  // calls in each sample (-n); 0 means automatic
	Digits int  // significant digits (-p); 0 means 3
	Quiet  bool // show nothing (-q)
}

// mostDigits are those that a float64 has.
const mostDigits = 17

// Run measures loop, which does the work n times. It reads the clock only when the
// devices are idle, and the first call, which may compile, is not a sample. An
// interrupt ends the measurement and keeps the samples so far. If loop panics, Run
// prints the samples so far and the panic, and exits the program with status 2.
func (t Timeit) Run(loop func(n int)) Timed {
	if t.Digits < 0 || t.Digits > mostDigits {
		result := Timed{Measurement: timing.Measurement{Name: "timeit", Err: fmt.Errorf("report: got %d digits, want 1 to %d, or 0 for 3", t.Digits, mostDigits)}}
		fmt.Println(result)
		return result
	}
	known := make(chan timing.Measurement, 1) // always the newest
	timer := timing.Timer{Runs: t.Runs, Loops: t.Loops, Sync: idle, Present: connected, Each: func(m timing.Measurement) {
		select {
		case <-known:
		default:
		}
		known <- m
	}}
	timer.Runs = cmp.Or(timer.Runs, 7)
	ctx := session.Context()
	done := make(chan timing.Measurement, 1)
	go func() { done <- timer.Times(ctx, timing.Case{Name: "timeit", Loop: loop})[0] }()
	result := Timed{Digits: t.Digits}
	select {
	case result.Measurement = <-done:
	case <-ctx.Done():
		result.Measurement = stopped(done, known)
	}
	var failed *timing.PanicError
	crashed := errors.As(result.Err, &failed)
	if crashed {
		before := result
		before.Err, before.Partial = nil, true // the panic says the rest
		if before.N() > 0 {
			fmt.Println(before)
		}
	} else if !t.Quiet || result.Err != nil {
		fmt.Println(result) // IPython prints it as well: it is text
	}
	if crashed {
		// What the runtime would have written, had nobody looked.
		text, hint := fmt.Sprint(failed.Value), ""
		var next interface{ Hint() string }
		if err, is := failed.Value.(error); is && errors.As(err, &next) && next.Hint() != "" {
			text = strings.TrimSuffix(text, "\nhint: "+next.Hint()) // must says it in a goroutine
			hint = " [recovered]\n\tpanic: hint: " + next.Hint()
		}
		fmt.Fprintf(os.Stderr, "panic: %s [%s]%s\n\n%s", text, failed.When(), hint, failed.Stack)
		os.Exit(2)
	}
	return result
}

// patience is how long a stop waits for a call to end. The kernel kills a cell
// that does not end within two seconds.
const patience = time.Second

// stopped is what is known when a measurement was interrupted: all of it, if
// the call that runs ends soon.
func stopped(done, known chan timing.Measurement) timing.Measurement {
	select {
	case m := <-done:
		return m
	case <-time.After(patience):
	}
	m := timing.Measurement{Name: "timeit"}
	select {
	case m = <-known:
	default:
		m.Err = errors.New("stopped in the first call")
	}
	m.Partial = true
	return m
}

// idle waits until the devices have nothing to do. What failed there is the
// work's own failure.
func idle() {
	if err := session.WaitAll(); err != nil {
		panic(err)
	}
}

// connected reports whether there is a device to wait for. A process without a
// session measures its own time.
func connected() bool { return session.Connections() > 0 }

// Timed is a measurement in the format of %timeit.
type Timed struct {
	timing.Measurement
	Digits int
}

// String returns IPython's line, and below it what IPython does not report.
func (t Timed) String() string { return strings.Join(t.lines(), "\n") }

func (t Timed) HTML() string { return "<pre>" + escape(t.String()) + "</pre>" }

func (t Timed) lines() []string {
	digits := cmp.Or(t.Digits, 3)
	var lines []string
	if t.N() > 0 {
		second := []string{"median " + units.Seconds(t.Median()) + fmt.Sprintf(" ± %.1f %%", 100*t.Spread()), "best " + units.Seconds(t.Best())}
		if t.First > 0 {
			second = append(second, "first call "+units.Seconds(t.First)+", not counted")
		}
		if t.Device {
			second = append(second, "device idle at both ends")
		}
		if t.Device && t.Host > 0 && !t.DispatchBound() {
			second = append(second, "host "+units.Seconds(t.Host)+" of a call")
		}
		lines = append(lines, t.IPythonDigits(digits), strings.Join(second, " · "))
	}
	if t.Partial {
		lines = append(lines, fmt.Sprintf("stopped after %d runs: a partial result", t.N()))
	}
	if t.Err != nil {
		lines = append(lines, "error: "+t.Err.Error())
	}
	for _, w := range t.Warnings {
		lines = append(lines, "warning: "+w.Error())
	}
	return lines
}
