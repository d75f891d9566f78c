package fit

import (
	"context"
	"math"
	"strings"
	"testing"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/models"
)

// TestProducts trains a net whose products are package gemm's, and with XLA's: the losses
// are the same but for rounding, and fall.
func TestProducts(t *testing.T) {
	s := open(t)
	if s.Welcome().Products == 0 {
		t.Skip("needs a processor of Intel's with AVX-512, since sessions have XLA's products on others: run it on one (grep avx512vl /proc/cpuinfo)")
	}
	net := models.FCN(784, []int{1280, 1280}, 10)
	var losses [2][]float32
	for i, kernels := range []Kernels{AutoKernels, XLAKernels} {
		n := attach(t, s, []string{"own", "xla"}[i], net, Config{Seed: 3, Kernels: kernels, Optimizer: SGD{}})
		data := load(t, n, "digits", digits(2048, net.Input, 1))
		h, err := n.Train(context.Background(), data, Train{Batch: 1024, Epochs: 6, LearningRate: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		losses[i] = h.Losses
		p, err := n.epochProgram(data, chunk{Batch: 1024, Inner: 2, Unroll: 1, Limit: 1, Devices: 1})
		if err != nil {
			t.Fatal(err)
		}
		// Of three layers two are large, forward, and back to inputs and to weights; the
		// first has nobody to go back to.
		if got, want := strings.Count(string(p.Text(nil)), gemm.Target), []int{5, 0}[i]; got != want {
			t.Errorf("%s: got %d products of package gemm, want %d", n.Name(), got, want)
		}
	}
	for i, l := range losses[0] {
		if x := losses[1][i]; math.Abs(float64(l-x)) > 1e-4*float64(x) {
			t.Errorf("step %d: got loss %v, with XLA's products %v", i, l, x)
		}
	}
	if l := losses[0]; len(l) < 2 || !(l[len(l)-1] < l[0]) {
		t.Errorf("got losses %v, want that they fall", l)
	}
}
