package hosts_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gaiden/lib/datasets"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// pair is a session with one device and a follower with another: two GPUs of one host, or CPUs.
func pair(t *testing.T) (*session.Session, *follower) {
	t.Helper()
	if onGPUs() {
		t.Setenv("GAIDEN_DEVICE", "cuda:1")
	}
	f := startFollower(t, filepath.Join(t.TempDir(), "run", "f.sock"))
	if onGPUs() {
		t.Setenv("GAIDEN_DEVICE", "cuda:0")
	}
	began := time.Now()
	socket := devicetest.Start(t)
	s := add(t, open(t, socket), socket, "", f)
	t.Logf("two processes are ready after %v", time.Since(began).Round(time.Millisecond))
	return s, f
}

// trainer trains a net on two devices, those of one process or of two.
type trainer struct {
	name   string
	net    *fit.Net
	sets   []*fit.Set
	losses []float32
	took   [][]float64 // of each run, by round, in milliseconds
}

// training is a net, its data sets, and how many epochs of which the runs of a round have.
type training struct {
	net    models.Net
	size   [3]int
	images []int
	batch  int
	runs   [][2]int // data set and epochs
	rounds int
}

func (tt *training) start(t *testing.T, s *session.Session, name string) *trainer {
	t.Helper()
	n, err := fit.Attach(s, tt.net.Name, tt.net, fit.Config{Seed: 1, Devices: 2, AllDevices: true, FirstLook: !onGPUs()})
	if err != nil {
		t.Fatal(err)
	}
	x := &trainer{name: name, net: n, took: make([][]float64, len(tt.runs))}
	for i, count := range tt.images {
		images, err := datasets.Synthetic(1, count+100, tt.size[0], tt.size[1], tt.size[2])
		if err != nil {
			t.Fatal(err)
		}
		images = images.First(count, 100)
		data, err := n.Upload(fmt.Sprint(tt.net.Name, "/data", i), fit.Data{X: images.Train.Pixels, Y: images.Train.Labels})
		if err != nil {
			t.Fatal(err)
		}
		x.sets = append(x.sets, data)
	}
	return x
}

func (x *trainer) run(tt *training, run int) (*fit.History, error) {
	began := time.Now()
	h, err := x.net.Fit(x.sets[tt.runs[run][0]], fit.Train{Epochs: tt.runs[run][1], Batch: tt.batch, DropLast: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.name, err)
	}
	if h.Devices != 2 {
		return nil, fmt.Errorf("%s: trained on %d devices, want 2", x.name, h.Devices)
	}
	x.took[run] = append(x.took[run], float64(time.Since(began).Microseconds())/1000)
	x.losses = append(x.losses, h.Losses...)
	return h, nil
}

// trial is a row of what TestTraining has measured: medians of all rounds but the first, which
// compiles.
type trial struct {
	Net                       string
	Images, Batch             int
	Epochs, Steps             int
	OneProcess, TwoProcesses  float64 // ms
	OneSamples, TwoSamples    []float64
	WorstLossDifference, Loss float64
}

// TestTraining trains nets on two devices that share each batch: those of one process, and
// those of two, in turns. The losses must be the same. The log has what each run took.
func TestTraining(t *testing.T) {
	nets := []training{
		{models.MLP(1000), [3]int{28, 28, 1}, []int{20_000, 120_000}, 1000, [][2]int{{0, 1}, {0, 31}, {1, 1}, {1, 6}}, 5},
		{models.ResNet50(), [3]int{32, 32, 3}, []int{8192}, 2048, [][2]int{{0, 1}, {0, 6}}, 4},
	}
	if !onGPUs() {
		nets = []training{{models.MLP(16), [3]int{28, 28, 1}, []int{256}, 32, [][2]int{{0, 2}, {0, 5}}, 2}}
		t.Setenv("GAIDEN_CPU_DEVICES", "2")
	}
	t.Setenv("GAIDEN_MEMORY_FRACTION", "0.35") // a GPU has two sessions here
	together := devicetest.Start(t)
	t.Setenv("GAIDEN_CPU_DEVICES", "1")
	s, _ := pair(t)
	one := open(t, together)
	if n := len(one.Welcome().Devices); n != 2 {
		t.Skipf("got %d devices in one process, want 2: run it on a machine with two GPUs, or with the CPU plugin that scripts/run fetches", n)
	}
	for _, tt := range nets {
		t.Run(tt.net.Name, func(t *testing.T) {
			all := []*trainer{tt.start(t, one, "one process"), tt.start(t, s, "two processes")}
			steps := make([]int, len(tt.runs))
			do := func(x *trainer, run int, first bool) error {
				h, err := x.run(&tt, run)
				if err == nil && first {
					t.Logf("%s: first run of %d epochs: %.0f ms, of it %v to compile", x.name, tt.runs[run][1], x.took[run][0], h.Compile.Round(time.Millisecond))
				}
				if err == nil && x == all[0] {
					steps[run] = h.Steps
				}
				return err
			}
			for run := range tt.runs { // both compile at the same time
				other := make(chan error)
				go func() { other <- do(all[1], run, true) }()
				if err := errors.Join(do(all[0], run, true), <-other); err != nil {
					t.Fatal(err)
				}
			}
			for round := range tt.rounds {
				for run := range tt.runs {
					for k := range all {
						if err := do(all[(k+round)%2], run, false); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			want, got := all[0].losses, all[1].losses
			if len(got) != len(want) || len(got) == 0 {
				t.Fatalf("got %d losses, want %d", len(got), len(want))
			}
			worst, at := 0.0, 0
			for i := range want {
				if d := math.Abs(float64(got[i]-want[i])) / math.Max(1, math.Abs(float64(want[i]))); d > worst || d != d {
					worst, at = d, i
				}
			}
			t.Logf("losses differ by at most %.2g, at step %d: %v and %v", worst, at, got[at], want[at])
			if !(worst < 1e-3) {
				t.Errorf("losses of two processes differ by %g, want less than 0.001", worst)
			}
			for run, r := range tt.runs {
				row := trial{tt.net.Name, tt.images[r[0]], tt.batch, r[1], steps[run], median(all[0].took[run][1:]), median(all[1].took[run][1:]),
					all[0].took[run], all[1].took[run], worst, float64(want[len(want)-1])}
				t.Logf("trial %s", wire.JSON(row))
			}
		})
	}
}

func median(l []float64) float64 {
	l = slices.Sorted(slices.Values(l))
	return l[len(l)/2]
}
