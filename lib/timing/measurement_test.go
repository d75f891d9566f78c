package timing

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gaiden/lib/sysinfo"
)

func of(samples ...float64) Measurement { return Measurement{Name: "of", Samples: samples, Loops: 1} }

// The wanted strings were printed by IPython 9.18.1 (_format_time, precision 3).
func TestIPython(t *testing.T) {
	for seconds, want := range map[float64]string{
		1.32e-3: "1.32 ms", 1.3e-3: "1.3 ms", 12.3e-6: "12.3 µs", 5e-8: "50 ns", 2.31: "2.31 s", 59.9: "59.9 s", 60: "1min",
		125.4: "2min 5s", 3725: "1h 2min 5s", 90061.5: "1d 1h 1min 1s", 0: "0 ns", 1e-10: "0.1 ns", 0.9996e-3: "1e+03 µs", 100e-6: "100 µs", 1: "1 s",
	} {
		if got := ipythonTime(seconds, 3); got != want {
			t.Errorf("%g s: got %q, want %q", seconds, got, want)
		}
	}
	m := of(0.00131, 0.00132, 0.00133)
	m.Loops = 1000
	if got, want := m.IPython(), "1.32 ms ± 8.16 µs per loop (mean ± std. dev. of 3 runs, 1,000 loops each)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := of(0.00132).IPython(), "1.32 ms ± 0 ns per loop (mean ± std. dev. of 1 run, 1 loop each)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := of().IPython(), "not measured"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestString(t *testing.T) {
	full := Measurement{Name: "LeNet5 batch 128", Samples: []float64{0.00139, 0.00142, 0.00145}, Loops: 16, First: 2.31}
	tests := []struct {
		name string
		m    Measurement
		want string
	}{
		{"full", full, "LeNet5 batch 128   1.42 ms ± 1 %   median of 3 blocks of 16   first call 2.31 s, not counted"},
		{"one", of(2), "of   2.00 s ± 0.0 %   median of 1 block of 1"},
		{"none", Measurement{Name: "none", Partial: true, Err: errStopped}, "none   not measured   stopped: partial result\nerror: timing: stopped before it was done"},
		{"warned", Measurement{Name: "w", Samples: []float64{1}, Loops: 1, Warnings: []error{errors.New("doubt")}}, "w   1.00 s ± 0.0 %   median of 1 block of 1\nwarning: doubt"},
	}
	for _, tt := range tests {
		if got := tt.m.String(); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	steady := make([]float64, 40)
	drifting := make([]float64, 40)
	wild := make([]float64, 40)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range steady {
		steady[i] = 1 + 0.01*r.Float64()
		drifting[i] = 1 + 0.005*float64(i) + 0.01*r.Float64()
		wild[i] = 1 + r.Float64()
	}
	tests := []struct {
		name    string
		samples []float64
		clock   float64
		want    []string
	}{
		{"steady", steady, 1e-6, nil},
		{"clock", steady, 0.01, []string{"reading the clock is 1.0 %"}},
		{"few", steady[:2], 0, []string{"2 samples cannot show"}},
		{"drifting", drifting, 0, []string{"second half took +1"}},
		{"wild", wild, 0, []string{"samples spread 16 %: do not trust"}},
		{"cached", append([]float64{9}, steady...), 0, []string{"slowest sample took 9.0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := of(tt.samples...)
			m.judge(tt.clock, 0.001)
			if len(m.Warnings) != len(tt.want) {
				t.Fatalf("got %v, want %q", m.Warnings, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(m.Warnings[i].Error(), want) {
					t.Errorf("got %q, want %q", m.Warnings[i], want)
				}
			}
		})
	}
}

func TestRecord(t *testing.T) {
	m := of(1e-6, 2e-6, 3e-6)
	m.Time = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	info := sysinfo.Info{Machine: sysinfo.Machine{CPU: "CPU", Cores: 2, OS: "linux", Arch: "amd64"}, GPUs: []sysinfo.GPU{{Name: "GPU"}}, Versions: sysinfo.Versions{Go: "go1"}}
	record, err := m.Record("dispatch", "n31", "gaiden", info)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"bench":"dispatch","case":"n31","subject":"gaiden","unit":"µs","median":2,"low":1.5,"high":2.5,"n":3,"machine":"CPU, 2 cores, linux/amd64; GPU","versions":"go1","date":"2026-11-21T00:00:00Z"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := of().Record("b", "c", "s", info); err == nil {
		t.Error("without samples: got no error")
	}
}
