package resident

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/golden"
	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/optim"
)

// longest is the length of a text that testdata has as it is.
const longest = 60_000

var (
	small = MLP{Examples: 40, Batch: 12, In: 24, Hidden: [2]int{100, 70}, Classes: 3, Steps: 3, Rows: 5, slices: 2}
	large = MLP{Examples: 60000, Batch: 100, In: 784, Hidden: [2]int{1000, 1000}, Classes: 10, Steps: 100, Rows: 601}
)

// goldens are what each rule makes of one weight, whole kernels with each rule, and
// kernels of each form: with inputs that are floats, with one place for the inputs of
// both large layers, and with two groups to a slice.
var goldens = map[string]ptx.Kernel{
	"rule_adam":             rule(optim.Adam{}.Rule()),
	"rule_adam_decay":       rule(optim.Adam{WeightDecay: 0.01}.Rule()),
	"rule_sgd":              rule(optim.SGD{}.Rule()),
	"rule_sgd_decay":        rule(optim.SGD{WeightDecay: 0.1}.Rule()),
	"rule_momentum":         rule(optim.SGD{Momentum: 0.9}.Rule()),
	"rule_nesterov":         rule(optim.SGD{Momentum: 0.9, Nesterov: true}.Rule()),
	"rule_adadelta":         rule(optim.AdaDelta{}.Rule()),
	"rule_adadelta_decay":   rule(optim.AdaDelta{Rho: 0.95, WeightDecay: 0.1}.Rule()),
	"mlp_small_adam":        with(small, optim.Adam{}.Rule()),
	"mlp_small_sgd":         with(small, optim.SGD{}.Rule()),
	"mlp_small_momentum":    with(small, optim.SGD{Momentum: 0.9}.Rule()),
	"mlp_small_nesterov":    with(small, optim.SGD{Momentum: 0.9, Nesterov: true}.Rule()),
	"mlp_small_adadelta":    with(small, optim.AdaDelta{}.Rule()),
	"mlp_large_adam":        with(large, optim.Adam{}.Rule()),
	"mlp_large_sgd":         with(large, optim.SGD{}.Rule()),
	"mlp_floats_adam_decay": with(MLP{Examples: 99, Batch: 31, In: 40, Floats: true, Hidden: [2]int{30, 128}, Classes: 2, Steps: 3, Rows: 4, slices: 2}, optim.Adam{WeightDecay: 0.01}.Rule()),
	"mlp_floats_tight":      with(MLP{Examples: 70, Batch: 17, In: 24, Floats: true, Hidden: [2]int{30, 128}, Classes: 2, Steps: 3, Rows: 4, slices: 2, tight: true}, optim.Adam{}.Rule()),
	"mlp_batch128":          with(MLP{Examples: 60000, Batch: 128, In: 784, Hidden: [2]int{500, 300}, Classes: 10, Steps: 100, Rows: 601}, optim.Adam{}.Rule()),
	"mlp_two_groups_sgd":    with(MLP{Examples: 60, Batch: 25, In: 56, Hidden: [2]int{129, 200}, Classes: 10, Steps: 2, Rows: 2, slices: 2}, optim.SGD{}.Rule()),
}

func with(m MLP, r kernels.Rule) ptx.Kernel {
	if m.Rule = r; !m.Fits() {
		panic(fmt.Sprintf("%+v does not fit", m))
	}
	return m.Kernel()
}

// rule is a kernel that takes one step with one weight: of the inputs, the first is the
// gradient, the second the rule's second scalar, then come the weight and its moments.
func rule(r kernels.Rule) ptx.Kernel {
	m := MLP{Rule: r}
	numbers := shapes.Make(dtypes.Float32, 2+m.arrays())
	return ptx.Kernel{
		Name: "rule_" + r.Name(), Blocks: 1, Threads: 32, Inputs: []shapes.Shape{numbers}, Outputs: []shapes.Shape{numbers},
		Body: func(b *ptx.Block) {
			in := b.Input(0)
			w := &writer{Block: b, m: m, scales: []ptx.Value{b.Var(0.25), in.Load(4).Float()}}
			s := w.nothing()
			for i := range s {
				w.Set(s[i], in.Load(8+4*i).Float())
			}
			w.follow(s, in.Load(0).Float())
			for i := range s {
				b.Output(0).Store(8+4*i, s[i])
			}
		},
	}
}

// TestGoldens holds the text of kernels, to the letter. Whole kernels are unrolled and
// long: of them there are sums.
func TestGoldens(t *testing.T) { golden.Hold(t, ".ptx", goldens, longest) }
