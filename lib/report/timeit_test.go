package report

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/interrupt"
	"gaiden/lib/timing"
)

func TestTimed(t *testing.T) {
	m := timing.Measurement{Name: "timeit", Samples: []float64{0.00131, 0.00132, 0.00133}, Loops: 1000, First: 2.31}
	device := m
	device.Device, device.Host = true, 40e-6
	partial := m
	partial.Partial = true
	failed := timing.Measurement{Name: "timeit", Err: errors.New("timing: timeit: panic in run 37: index out of range")}
	tests := []struct {
		name string
		t    Timed
		want string
	}{
		{"host", Timed{Measurement: m}, "1.32 ms ± 8.16 µs per loop (mean ± std. dev. of 3 runs, 1,000 loops each)\n" +
			"median 1.32 ms ± 0.4 % · best 1.31 ms · first call 2.31 s, not counted"},
		{"five digits", Timed{Measurement: m, Digits: 5}, "1.32 ms ± 8.165 µs per loop (mean ± std. dev. of 3 runs, 1,000 loops each)\n" +
			"median 1.32 ms ± 0.4 % · best 1.31 ms · first call 2.31 s, not counted"},
		{"device", Timed{Measurement: device}, "1.32 ms ± 8.16 µs per loop (mean ± std. dev. of 3 runs, 1,000 loops each)\n" +
			"median 1.32 ms ± 0.4 % · best 1.31 ms · first call 2.31 s, not counted · device idle at both ends · host 40.0 µs of a call"},
		{"partial", Timed{Measurement: partial}, "1.32 ms ± 8.16 µs per loop (mean ± std. dev. of 3 runs, 1,000 loops each)\n" +
			"median 1.32 ms ± 0.4 % · best 1.31 ms · first call 2.31 s, not counted\nstopped after 3 runs: a partial result"},
		{"failed", Timed{Measurement: failed}, "error: timing: timeit: panic in run 37: index out of range"},
	}
	for _, tt := range tests {
		if got := tt.t.String(); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
	if got, want := (Timed{Measurement: timing.Measurement{Err: errors.New("<b>")}}).HTML(), "<pre>error: &lt;b&gt;</pre>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTimeitProcess is no test of its own: it is the cell of those below.
func TestTimeitProcess(t *testing.T) {
	calls := 0
	interrupt.Cell()
	switch os.Getenv("GAIDEN_TEST_TIMEIT") {
	case "panic":
		Timeit{Runs: 100, Loops: 1}.Run(func(int) {
			if calls++; calls == 38 {
				panic("boom")
			}
		})
	case "stop":
		Timeit{Runs: 1000, Loops: 1}.Run(func(int) { time.Sleep(20 * time.Millisecond) })
	case "stuck":
		Timeit{Runs: 1000, Loops: 1}.Run(func(int) {
			if calls++; calls > 4 {
				time.Sleep(time.Hour)
			}
		})
	case "quiet":
		Timeit{Runs: 2, Loops: 1, Quiet: true}.Run(func(int) {})
	default:
		t.Skip("needs a process of its own, which TestTimeitInAProcess gives it: go test -run TestTimeitInAProcess ./lib/report")
	}
}

func TestTimeitInAProcess(t *testing.T) {
	tests := []struct {
		name      string
		interrupt time.Duration
		out, err  []string
		code      int
	}{
		{"panic", 0, []string{"of 36 runs, 1 loop each", "stopped after 36 runs: a partial result"}, []string{"panic: boom [in run 37]\n\ngoroutine ", "TestTimeitProcess"}, 2},
		{"stop", 500 * time.Millisecond, []string{"stopped after ", "a partial result"}, nil, 0},
		{"stuck", 500 * time.Millisecond, []string{"of 3 runs, 1 loop each", "stopped after 3 runs: a partial result"}, nil, 0},
		{"quiet", 0, nil, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestTimeitProcess$")
			cmd.Env = append(os.Environ(), "GAIDEN_TEST_TIMEIT="+tt.name)
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.interrupt > 0 {
				time.AfterFunc(tt.interrupt, func() { cmd.Process.Signal(syscall.SIGINT) })
			}
			began := time.Now()
			cmd.Wait() // its error is the code below
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("got exit status %d, want %d\n%s%s", got, tt.code, out.String(), errs.String())
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got %q, want %q in it", out.String(), want)
				}
			}
			for _, want := range tt.err {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("got %q, want %q in it", errs.String(), want)
				}
			}
			if tt.out == nil && strings.Contains(out.String(), "per loop") {
				t.Errorf("got %q, want nothing shown", out.String())
			}
		})
	}
}
