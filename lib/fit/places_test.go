package fit

import (
	"math"
	"strings"
	"testing"

	"gaiden/lib/engine/lstm"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// withCalls is a session that has the calls of package lstm.
func withCalls(t *testing.T) *session.Session {
	t.Helper()
	s := open(t)
	if s.Welcome().LSTMThreads == 0 {
		t.Skip("needs a processor of Intel's with AVX-512 or of AMD's with AVX2 alone, since sessions have XLA's loops on others: run it on one (grep -E 'vendor|avx' /proc/cpuinfo)")
	}
	return s
}

// TestPlaces trains nets whose LSTMs are package lstm's, and XLA's loops: the losses are the
// same but for rounding, and so is what a layer's way there and back counts for.
func TestPlaces(t *testing.T) {
	s := withCalls(t)
	two := models.SineLSTM(9, 11)
	two.Layers = []models.Layer{two.Layers[0], models.LSTM{Name: "l2", Units: 9}, models.LSTM{Name: "l4", Units: 17}, two.Layers[2]}
	for _, tt := range []struct {
		name   string
		net    models.Net
		config Config
		batch  int
		calls  int // each way
	}{
		{"article", models.SineLSTM(5, 20), Config{}, 8, 1},
		{"wide", models.SineLSTM(80, 7), Config{Optimizer: optim.SGD{}}, 32, 1},
		{"two", two, Config{}, 13, 2},
		{"stateful", pieces(11, 8), Config{}, 8, 1},
		{"bf16", models.SineLSTM(5, 20), Config{BF16: true}, 8, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			length := tt.net.Input[0]
			var losses [2][]float32
			var scores [2]float64
			var work [2]map[string]float64 // FLOPs of each layer's ways
			for i, kernels := range []Kernels{AutoKernels, XLAKernels} {
				config := tt.config
				config.Seed, config.Kernels = 3, kernels
				n := attach(t, s, tt.name+[]string{"-own", "-xla"}[i], tt.net, config)
				data := load(t, n, "places", numbers(64, length, length, 1))
				train := Train{Batch: tt.batch, Epochs: 3, DropLast: true, LearningRate: 0.01, InOrder: tt.name == "stateful"}
				h, err := n.Fit(data, train)
				if err != nil {
					t.Fatal(err)
				}
				losses[i] = h.Losses
				score, err := n.Evaluate(data)
				if err != nil {
					t.Fatal(err)
				}
				scores[i] = score.Loss
				p, err := n.epochProgram(data, plan.Part{Batch: tt.batch, Inner: 2, Unroll: 1, Limit: 1, Devices: 1})
				if err != nil {
					t.Fatal(err)
				}
				work[i] = map[string]float64{}
				for _, c := range p.Costs() {
					if strings.HasPrefix(c.Label, "l2/") {
						work[i][c.Label] = c.FLOPs
					}
				}
				if got, want := strings.Count(string(p.Text(nil)), lstm.Target), []int{2 * tt.calls, 0}[i]; got != want {
					t.Errorf("%s: got %d calls of package lstm, want %d", n.Name(), got, want)
				}
				test, err := n.testProgram(data, tt.batch, 2, false)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := strings.Count(string(test.Text(nil)), lstm.Target), []int{tt.calls, 0}[i]; got != want {
					t.Errorf("%s: got %d calls of package lstm in a test, want %d", n.Name(), got, want)
				}
			}
			for label, want := range work[1] {
				if got := work[0][label]; math.Abs(got-want) > 0.2*want {
					t.Errorf("%s: got %v FLOPs, with XLA's loop %v", label, got, want)
				}
			}
			if len(work[1]) < 2 || len(losses[0]) < 3 {
				t.Errorf("got %d ways of a layer and %d losses, want 2 and 3 at least", len(work[1]), len(losses[0]))
			}
			if off := math.Abs(scores[0] - scores[1]); !(off <= 1e-5*scores[1]) {
				t.Errorf("got a loss of %v over all data, with XLA's loops %v", scores[0], scores[1])
			}
			for i, l := range losses[0] {
				if x := losses[1][i]; !(math.Abs(float64(l-x)) <= 1e-5*float64(x)) {
					t.Errorf("step %d: got loss %v, with XLA's loop %v", i, l, x)
				}
			}
		})
	}
}
