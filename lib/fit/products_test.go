package fit

import (
	"math"
	"strings"
	"testing"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// withCalls is a session that has the calls of packages gemm and lstm.
func withCalls(t *testing.T) *session.Session {
	t.Helper()
	s := open(t)
	if s.Welcome().Products == 0 {
		t.Skip("needs a processor of Intel's with AVX-512 or of AMD's with AVX2 alone, since sessions have XLA's products and loops on others: run it on one (grep -E 'vendor|avx' /proc/cpuinfo)")
	}
	return s
}

// TestProducts trains nets whose products are package gemm's, and with XLA's: the losses
// are the same but for rounding, and fall.
func TestProducts(t *testing.T) {
	s := withCalls(t)
	avx2 := 0
	if gemm.Handlers()[0].Bits == 256 {
		avx2 = 1
	}
	fcn, mlp := models.FCN(784, []int{1280, 1280}, 10), models.MLP(1000)
	for _, tt := range []struct {
		name      string
		net       models.Net
		optimizer Optimizer
		batch     int
		epochs    int
		rate      float64
		calls     [2]int // of package gemm, with AVX-512 and with AVX2
		inPlace   int    // arrays of weights that change where their gradient is computed
	}{
		// Of three layers two are large, forward, and back to inputs and to weights; the
		// first has nobody to go back to.
		{"sgd", fcn, optim.SGD{}, 1024, 6, 0.05, [2]int{5, 5}, 2},
		{"momentum", fcn, optim.SGD{Momentum: 0.9}, 1024, 6, 0.01, [2]int{5, 5}, 4},
		{"nesterov", fcn, optim.SGD{Momentum: 0.9, Nesterov: true}, 1024, 2, 0.01, [2]int{5, 5}, 0},
		// Of the MLP's with AVX-512 only the weights' products are.
		{"adam", mlp, optim.Adam{}, 128, 2, 0.0003, [2]int{2, 5}, 6},
		{"adam-decay", mlp, optim.Adam{WeightDecay: 0.01}, 128, 2, 0.0003, [2]int{0, 5}, 0},
		{"adadelta", mlp, optim.AdaDelta{}, 128, 2, 0.1, [2]int{0, 5}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var losses [2][]float32
			var back [2]map[string]float64 // FLOPs of each layer's way back
			for i, kernels := range []Kernels{AutoKernels, XLAKernels} {
				n := attach(t, s, tt.name+[]string{"-own", "-xla"}[i], tt.net, Config{Seed: 3, Kernels: kernels, Optimizer: tt.optimizer})
				data := load(t, n, "digits", digits(2048, tt.net.Input, 1))
				h, err := n.Fit(data, Train{Batch: tt.batch, Epochs: tt.epochs, LearningRate: tt.rate})
				if err != nil {
					t.Fatal(err)
				}
				losses[i] = h.Losses
				p, err := n.epochProgram(data, plan.Part{Batch: tt.batch, Inner: 2, Unroll: 1, Limit: 1, Devices: 1})
				if err != nil {
					t.Fatal(err)
				}
				back[i] = map[string]float64{}
				for _, c := range p.Costs() {
					if strings.HasSuffix(c.Label, "/backward") {
						back[i][c.Label] = c.FLOPs
					}
				}
				text := string(p.Text(nil))
				calls, inPlace := strings.Count(text, gemm.Target), strings.Count(text, "output_operand_alias<")
				if want := [][2]int{{tt.calls[avx2], tt.inPlace}, {}}[i]; calls != want[0] || inPlace != want[1] {
					t.Errorf("%s: got %d calls of package gemm that change %d arrays in place, want %d and %d", n.Name(), calls, inPlace, want[0], want[1])
				}
			}
			for label, want := range back[1] {
				if got := back[0][label]; math.Abs(got-want) > 0.15*want {
					t.Errorf("%s: got %v FLOPs, with XLA's products %v", label, got, want)
				}
			}
			for i, l := range losses[0] {
				off := 1e-4
				if tt.calls[avx2] > tt.calls[0] { // forwards, too: Adam and AdaDelta make more of rounding
					off = 1e-3
				}
				if x := losses[1][i]; !(math.Abs(float64(l-x)) <= off*float64(x)) {
					t.Errorf("step %d: got loss %v, with XLA's products %v", i, l, x)
				}
			}
			if l := losses[0]; len(l) < 4 || !(l[len(l)-1] < l[0]) {
				t.Errorf("got losses %v, want that they fall", l)
			}
		})
	}
}
