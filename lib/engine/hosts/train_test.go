package hosts_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gaiden/lib/datasets"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/optim"
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

// trainer trains a net on two devices, those of one process or of two, or on one.
type trainer struct {
	name   string
	uses   int // devices
	net    *fit.Net
	sets   []*fit.Set
	losses []float32
	took   [][]float64 // of each run, by round, in milliseconds
}

// training is a net, its data sets, and how many epochs of which the runs of a round have.
type training struct {
	net      models.Net
	config   fit.Config
	data     func(t *testing.T, examples int) fit.Data
	examples []int
	batch    int
	runs     [][2]int // data set and epochs
	rounds   int
	alone    []int   // batches that one GPU trains, too
	stream   int     // examples at a time; 0: all are in the session
	noise    float64 // by how much losses may differ, in proportion; default: 0.001
}

// images are synthetic ones.
func images(size [3]int) func(t *testing.T, examples int) fit.Data {
	return func(t *testing.T, examples int) fit.Data {
		all, err := datasets.Synthetic(1, examples+100, size[0], size[1], size[2])
		if err != nil {
			t.Fatal(err)
		}
		all = all.First(examples, 100)
		return fit.Data{X: all.Train.Pixels, Y: all.Train.Labels}
	}
}

// gpt2 has GPT-2's shape (Radford et al., 2019); its texts are random.
func gpt2() (models.Net, func(t *testing.T, examples int) fit.Data) {
	const vocab, length = 50304, 1024
	return models.Net{Name: "gpt2", Input: []int{length}, Layers: []models.Layer{
			models.Embedding{Name: "tokens", Vocab: vocab, Units: 768}, models.Positions{Name: "positions", Length: length},
			models.Repeat{Name: "block", Times: 12, Layer: models.TransformerBlock{Heads: 12, Causal: true}},
			models.LayerNorm{Name: "norm"}, models.Tied{Name: "head", Of: "tokens"}}},
		func(t *testing.T, examples int) fit.Data {
			r := rand.New(rand.NewPCG(1, 2))
			ids := make([]int32, 2*examples*length)
			for i := range ids {
				ids[i] = int32(r.IntN(vocab))
			}
			return fit.Data{X: ids[:len(ids)/2], Y: ids[len(ids)/2:], N: examples}
		}
}

func (tt *training) start(t *testing.T, s *session.Session, name string, devices int) *trainer {
	t.Helper()
	c := tt.config
	c.Seed, c.Devices, c.AllDevices, c.FirstLook = 1, devices, devices > 1, !onGPUs()
	n, err := fit.Attach(s, fmt.Sprint(tt.net.Name, devices), tt.net, c)
	if err != nil {
		t.Fatal(err)
	}
	x := &trainer{name: name, uses: devices, net: n, took: make([][]float64, len(tt.runs))}
	for i, count := range tt.examples {
		name, d := fmt.Sprint(tt.net.Name, "/data", i), tt.data(t, count)
		data, err := n.Upload(name, d)
		if tt.stream > 0 {
			data, err = n.Stream(name, func(yield func(fit.Data, error) bool) { yield(d, nil) }, tt.stream)
		}
		if err != nil {
			t.Fatal(err)
		}
		x.sets = append(x.sets, data)
	}
	return x
}

func (x *trainer) run(tt *training, run, batch int) (*fit.History, error) {
	began := time.Now()
	h, err := x.net.Fit(x.sets[tt.runs[run][0]], fit.Train{Epochs: tt.runs[run][1], Batch: batch, DropLast: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.name, err)
	}
	if h.Devices != x.uses {
		return nil, fmt.Errorf("%s: trained on %d devices, want %d", x.name, h.Devices, x.uses)
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
	// Two sessions may choose other algorithms for convolutions, whose losses differ; not so without
	// those that add up in no fixed order.
	fixed := fit.Config{Flags: map[string]any{"xla_gpu_exclude_nondeterministic_ops": true}}
	gpt, texts := gpt2()
	nets := []training{
		{net: models.MLP(1000), data: images([3]int{28, 28, 1}), examples: []int{20_000, 120_000}, batch: 1000, runs: [][2]int{{0, 1}, {0, 31}, {1, 1}, {1, 6}}, rounds: 5},
		{net: models.ResNet50(), config: fixed, data: images([3]int{32, 32, 3}), examples: []int{8192}, batch: 2048, runs: [][2]int{{0, 1}, {0, 6}}, rounds: 4},
		{net: models.ResNet152(), config: fixed, data: images([3]int{32, 32, 3}), examples: []int{8192}, batch: 2048, runs: [][2]int{{0, 4}}, rounds: 4, alone: []int{2048, 1024}},
		{net: gpt, config: fit.Config{BF16: true, Optimizer: optim.AdamW{LearningRate: 6e-4}}, data: texts, examples: []int{16 * 20}, batch: 16, runs: [][2]int{{0, 2}}, rounds: 4, alone: []int{16, 8}, noise: 0.05}, // whose sums have no fixed order: two runs on one GPU differ, too
	}
	if !onGPUs() {
		nets = []training{{net: models.MLP(16), data: images([3]int{28, 28, 1}), examples: []int{256}, batch: 32, runs: [][2]int{{0, 2}, {0, 5}}, rounds: 2}}
		streamed := nets[0]
		streamed.net.Name, streamed.stream, streamed.rounds = "stream", 96, 1
		nets = append(nets, streamed)
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
			all := []*trainer{tt.start(t, one, "one process", 2), tt.start(t, s, "two processes", 2)}
			steps := make([]int, len(tt.runs))
			do := func(x *trainer, run int, first bool) error {
				h, err := x.run(&tt, run, tt.batch)
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
			if limit := cmp.Or(tt.noise, 1e-3); !(worst < limit) {
				t.Errorf("losses of two processes differ by %g, want less than %g", worst, limit)
			}
			for run, r := range tt.runs {
				row := trial{tt.net.Name, tt.examples[r[0]], tt.batch, r[1], steps[run], median(all[0].took[run][1:]), median(all[1].took[run][1:]),
					all[0].took[run], all[1].took[run], worst, float64(want[len(want)-1])}
				t.Logf("trial %s", wire.JSON(row))
			}
			for _, batch := range tt.alone {
				x := tt.start(t, one, "one GPU", 1)
				steps := 0
				for range tt.rounds + 1 {
					h, err := x.run(&tt, len(tt.runs)-1, batch)
					if err != nil {
						t.Fatal(err)
					}
					steps = h.Steps
				}
				took := x.took[len(tt.runs)-1][1:]
				t.Logf("alone %s", wire.JSON(map[string]any{"Net": tt.net.Name, "Batch": batch, "Steps": steps, "OneGPU": median(took), "Samples": took}))
			}
		})
	}
}

func median(l []float64) float64 {
	l = slices.Sorted(slices.Values(l))
	return l[len(l)/2]
}
