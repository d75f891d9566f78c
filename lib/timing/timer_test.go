package timing

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/fieldtest"
	"gaiden/lib/timing/stats"
)

// spin keeps the processor busy, unlike a sleep, for at least d.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

func TestTimeOfKnownWork(t *testing.T) {
	// A spin is never shorter than asked. On a busy machine many are longer,
	// but not the best of hundreds.
	m := Timer{Loops: 1, Budget: 300 * time.Millisecond}.Time("spin", func() { spin(time.Millisecond) })
	if got := m.Best(); got < 0.001 || got > 0.00101 {
		t.Errorf("a spin of 1 ms: got %g s at best, want 1 ms to 1.01 ms: %v", got, m)
	}
	if m.N() < leastRuns || m.Err != nil || m.Partial {
		t.Errorf("got %v, want at least %d samples and no error", m, leastRuns)
	}
}

func TestFirstCallIsNoSample(t *testing.T) {
	calls := 0
	m := Timer{Runs: 5, Loops: 2}.Time("compiles once", func() {
		if calls++; calls == 1 {
			time.Sleep(400 * time.Millisecond)
		}
	})
	if m.First < 0.4 {
		t.Errorf("first call: got %g s, want 0.4 or more", m.First)
	}
	if got := stats.Max(m.Samples); got > 0.15 {
		t.Errorf("slowest sample: got %g s: the first call leaked into it", got)
	}
	if got, want := calls, 1+5*2; got != want {
		t.Errorf("got %d calls, want %d", got, want)
	}
	if !strings.Contains(m.String(), "first call ") || !strings.Contains(m.String(), "not counted") {
		t.Errorf("got %q, want the first call named", m)
	}
}

func TestClockCostsLessThanAThousandth(t *testing.T) {
	x := 1.0
	timer := Timer{Budget: 100 * time.Millisecond}
	m := timer.Times(t.Context(), Case{Name: "a product", Loop: func(n int) {
		for range n {
			x *= 1.0000001
		}
	}})[0]
	if block := m.Median() * float64(m.Loops); timer.clock() > 3*block/clockShare {
		t.Errorf("the clock costs %g s of blocks of %g s, want at most a thousandth", timer.clock(), block)
	}
	if got := m.Best(); got > 1e-7 || x == 1 {
		t.Errorf("a product: got %g s, want about a nanosecond", got)
	}

	// A wait for the device costs as well; it must be a thousandth too, or the
	// result must say that it is not: on a busy machine a block may have
	// seemed long enough that was not.
	timer.Sync = func() { spin(20 * time.Microsecond) }
	m = timer.Time("nothing", func() {})
	warned := len(m.Warnings) > 0 && strings.Contains(m.Warnings[0].Error(), "reading the clock")
	if got, want := m.Median()*float64(m.Loops), 20e-6*clockShare/1.5; got < want && !warned {
		t.Errorf("blocks of %g s for a wait of 20 µs, want %g or more, or a warning: %v", got, want, m)
	}
}

func TestDeviceIsIdleAtBothEnds(t *testing.T) {
	// The device works in the background; a call only queues.
	queue := make(chan time.Duration, 1000)
	idle := make(chan chan bool)
	go func() {
		for {
			select {
			case d := <-queue:
				time.Sleep(d)
			case done := <-idle:
				for len(queue) > 0 {
					time.Sleep(<-queue)
				}
				close(done)
			case <-t.Context().Done():
				return
			}
		}
	}()
	timer := Timer{Runs: 3, Loops: 5, Sync: func() { done := make(chan bool); idle <- done; <-done }}
	m := timer.Time("queued", func() { queue <- 2 * time.Millisecond })
	if got := m.Best(); got < 0.002 {
		t.Errorf("got %v, want 2 ms of device time or more for each call", m)
	}
	if !m.Device {
		t.Error("got a measurement of the host, want one of a device")
	}
	if host := (Timer{Runs: 3, Loops: 5}).Time("queued", func() { queue <- 0 }); host.Median() > 0.001 {
		t.Errorf("without Sync: got %v, want the time to queue", host)
	}
}

func TestDispatchBound(t *testing.T) {
	tests := []struct {
		name string
		m    Measurement
		want bool
	}{
		{"device", Measurement{Device: true, Host: 20e-6, Samples: []float64{300e-6, 310e-6}}, false},
		{"host", Measurement{Device: true, Host: 290e-6, Samples: []float64{300e-6, 900e-6}}, true},
		{"unknown", Measurement{Device: true, Samples: []float64{300e-6}}, false},
		{"no device", Measurement{Host: 300e-6, Samples: []float64{300e-6}}, false},
		{"a call that waits for its result", Measurement{Device: true, Host: 2e-3, Samples: []float64{2e-3}}, false},
		{"nothing", Measurement{Device: true}, false},
	}
	for _, tt := range tests {
		if got := tt.m.DispatchBound(); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
		tt.m.judge(0, 0.001)
		if got := strings.Contains(tt.m.String(), "dispatch-bound"); got != tt.want {
			t.Errorf("%s: got %q, want it to say so: %t", tt.name, tt.m, tt.want)
		}
	}
}

func TestHostApartFromDevice(t *testing.T) {
	var free time.Time // when the device is
	timer := Timer{Runs: 5, Budget: 50 * time.Millisecond, Sync: func() { spin(time.Until(free)) }}
	m := timer.Time("queued", func() {
		spin(20 * time.Microsecond)
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(10 * time.Millisecond)
	})
	if m.Host < 20e-6 || m.Host > 5e-3 || m.Best() < 10e-3 {
		t.Errorf("got %g s of host in %g s, want about 20 µs in 10 ms or more", m.Host, m.Best())
	}
	timer.Present = func() bool { return false }
	if m := timer.Time("no device", func() { spin(20 * time.Microsecond) }); m.Device {
		t.Errorf("got a measurement of a device, and there is none: %v", m)
	}
}

func TestEachGivesWhatIsKnown(t *testing.T) {
	var seen []Measurement
	timer := Timer{Runs: 3, Loops: 1, Each: func(m Measurement) { seen = append(seen, m) }}
	m := timer.Time("f", func() {})
	if len(seen) != 3 || seen[0].N() != 1 || seen[2].N() != m.N() {
		t.Errorf("got %v, want 3 measurements of 1 to 3 samples", seen)
	}
}

func TestRunsAndLoopsAsGiven(t *testing.T) {
	tests := []struct {
		name        string
		timer       Timer
		runs, loops int // 0: found
		err         string
	}{
		{"both", Timer{Runs: 7, Loops: 3}, 7, 3, ""},
		{"runs", Timer{Runs: 7, Budget: 70 * time.Millisecond}, 7, 0, ""},
		{"loops", Timer{Loops: 3, Budget: 10 * time.Millisecond}, 0, 3, ""},
		{"neither", Timer{Budget: 10 * time.Millisecond}, 0, 0, ""},
		{"negative runs", Timer{Runs: -1}, 0, 0, "got -1 runs"},
		{"negative loops", Timer{Loops: -1}, 0, 0, "got -1 loops"},
		{"whole clock", Timer{Clock: 1}, 0, 0, "got 1 as the clock's share"},
		{"negative budget", Timer{Budget: -1}, 0, 0, "got a budget of -1ns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.timer.Time("f", func() { spin(10 * time.Microsecond) })
			if tt.err != "" {
				if m.Err == nil || !strings.Contains(m.Err.Error(), tt.err) || m.N() != 0 {
					t.Errorf("got %v, want an error with %q", m, tt.err)
				}
				return
			}
			if m.Err != nil || tt.runs > 0 && m.N() != tt.runs || tt.loops > 0 && m.Loops != tt.loops {
				t.Errorf("got %d runs of %d loops, %v, want %d of %d", m.N(), m.Loops, m.Err, tt.runs, tt.loops)
			}
			if tt.runs == 0 && m.N() < leastRuns || m.Loops < 1 {
				t.Errorf("got %d runs of %d loops", m.N(), m.Loops)
			}
		})
	}
}

func TestPanicKeepsTheSamples(t *testing.T) {
	cause := errors.New("out of memory")
	calls := 0
	m := Timer{Runs: 100, Loops: 1}.Time("fragile", func() {
		if calls++; calls == 38 { // one first call, then run 37
			panic(cause)
		}
	})
	failed := new(PanicError)
	if !errors.As(m.Err, &failed) || failed.Run != 37 || !errors.Is(m.Err, cause) {
		t.Errorf("got %v, want a PanicError of run 37", m.Err)
	}
	if got, want := m.N(), 36; got != want {
		t.Errorf("got %d samples, want %d", got, want)
	}
	if !strings.Contains(m.String(), "failed in run 37: out of memory") {
		t.Errorf("got %q, want the run named", m)
	}

	var none []int
	m = Timer{}.Time("wrong", func() { none[3]++ })
	if m.Err == nil || !strings.Contains(m.Err.Error(), "panic before the first run: runtime error") {
		t.Errorf("got %v, want a panic of the runtime", m.Err)
	}
	m = Timer{}.Time("broken", func() { panic("at once") })
	if m.Err == nil || m.N() != 0 || !strings.Contains(m.String(), "not measured") {
		t.Errorf("got %v, want no samples and an error", m)
	}
	m = Timer{Sync: func() { panic("no device") }}.Time("f", func() {})
	if m.Err == nil || !strings.Contains(m.Err.Error(), "no device") {
		t.Errorf("got %v, want the panic of Sync", m.Err)
	}
}

func TestStopGivesAPartialResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	m := Timer{Runs: 1000, Loops: 1}.TimeContext(ctx, "long", func() {
		if calls++; calls == 11 {
			cancel()
		}
	})
	if !m.Partial || m.N() != 10 || m.Err != nil {
		t.Errorf("got %v with %d samples, want a partial result with 10", m, m.N())
	}
	if !strings.Contains(m.String(), "partial result") {
		t.Errorf("got %q, want it marked", m)
	}
	m = Timer{}.TimeContext(ctx, "never begun", func() { t.Error("called after the stop") })
	if !m.Partial || m.N() != 0 || m.Err == nil {
		t.Errorf("got %v, want a partial result without samples", m)
	}
}

func TestCasesAreMeasuredInTurns(t *testing.T) {
	var order strings.Builder
	mark := func(name string) Case { return Call(name, func() { order.WriteString(name) }) }
	results := Timer{Runs: 3, Loops: 1}.Times(t.Context(), mark("a"), mark("b"), Call("c", func() { panic("c") }))
	// First calls in order; then each turn is there and back, in random order.
	if got := order.String(); !regexp.MustCompile("^ab(abba|baab)(ab|ba)$").MatchString(got) {
		t.Errorf("got the order %s, want the first calls and one and a half turns", got)
	}
	if results[0].N() != 3 || results[1].N() != 3 || results[2].Err == nil {
		t.Errorf("got %v, want 3 samples of a and b and an error of c", results)
	}
	if got := (Timer{}).Times(t.Context()); len(got) != 0 {
		t.Errorf("no cases: got %v", got)
	}
}

func TestSlowWorkIsRunThreeTimes(t *testing.T) {
	m := Timer{Budget: time.Millisecond}.Time("slow", func() { spin(5 * time.Millisecond) })
	if got, want := m.N(), leastRuns; got != want {
		t.Errorf("got %d runs, want %d", got, want)
	}
}

func TestRound(t *testing.T) {
	for n, want := range map[float64]int{0: 1, 1: 1, 1.1: 2, 3: 5, 7: 10, 10: 10, 11: 20, 999: 1000, 1000: 1000, 1001: 2000} {
		if got := round(n); got != want {
			t.Errorf("round(%g): got %d, want %d", n, got, want)
		}
	}
	for n := 1.0; n < 1e9; n *= 1.37 {
		if got := float64(round(n)); got < math.Floor(n) || got > 2.5*n+1 {
			t.Errorf("round(%g): got %g", n, got)
		}
	}
}

// TestTimerSettings holds that a setting that means nothing is told in place of a
// measurement.
func TestTimerSettings(t *testing.T) {
	work := func() {}
	for _, tt := range []struct {
		timer Timer
		f     func()
		want  string
	}{
		{Timer{Clock: -0.1}, work, "-0.1 as the clock's share"}, {Timer{Clock: 1}, work, "1 as the clock's share"}, {Timer{Clock: math.NaN()}, work, "NaN as the clock's share"},
		{Timer{Runs: -1}, work, "-1 runs"}, {Timer{Loops: -3}, work, "-3 loops"}, {Timer{Budget: -time.Second}, work, "a budget of -1s"},
		{Timer{}, nil, "x: got no function, want Case.Loop"},
	} {
		if m := tt.timer.Time("x", tt.f); m.Err == nil || !strings.Contains(m.Err.Error(), tt.want) || m.N() > 0 {
			t.Errorf("%+v: got %v after %d samples, want %q", tt.timer, m.Err, m.N(), tt.want)
		}
	}
}

// TestEveryNumber holds the same of every number, also of one that a Timer may have later.
func TestEveryNumber(t *testing.T) {
	results := strings.Fields("Comparison Measurement PanicError Record")
	fieldtest.Numbers(t, []any{Timer{Runs: 1, Loops: 1}}, nil, results, func(timer any) error { return timer.(Timer).Time("x", func() {}).Err })
}
