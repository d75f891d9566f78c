package fit

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/triton"
	"gaiden/lib/fused"
	"gaiden/lib/models"
)

// TestOwn holds that a user's kernel is in the steps on a GPU, in bfloat16 too, and that
// XLAKernels switches it off with Gaiden's.
func TestOwn(t *testing.T) {
	t.Parallel()
	double := models.Net{Name: "double", Input: []int{128}, Function: func(_ *model.Scope, in models.Inputs) *Node {
		x := in["x"]
		vector := shapes.Make(dtypes.Float32, x.Shape().Size())
		return fused.Own{
			Kernel: triton.Kernel{Name: "double", Grid: [3]int{vector.Size() / 128}, Inputs: []shapes.Shape{vector}, Outputs: []shapes.Shape{vector},
				Body: func(b *triton.Block) {
					i := b.ProgramID(0).Mul(128).Add(b.Range(128))
					b.Output(0).At(i).Store(b.Input(0).At(i).Load().Mul(2.0))
				}},
			Plain: func(in ...*Node) *Node { return MulScalar(in[0], 2) },
		}.Apply(x)
	}, Layers: []models.Layer{models.Dense{Name: "output", Units: 10}}}
	s := open(t)
	for _, tt := range []struct {
		name   string
		config Config
		want   int
	}{
		{"as a rule", Config{}, 1},
		{"bf16", Config{BF16: true}, 1},
		{"XLA", Config{Kernels: XLAKernels}, 0},
		{"XLA bf16", Config{Kernels: XLAKernels, BF16: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := attach(t, s, "own", double, tt.config)
			defer n.Reset()
			n.target = played("cuda", "")
			p, err := n.stepProgram(load(t, n, "own", digits(4, []int{128}, 1)), 4)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(string(p.Text(nil)), "custom_call @"+triton.Target); got != tt.want {
				t.Errorf("got %d of the user's kernels, want %d", got, tt.want)
			}
		})
	}
}

// TestOwnOfOneSize holds that a kernel for one batch is refused on a CPU too, where it would
// not be run.
func TestOwnOfOneSize(t *testing.T) {
	t.Parallel()
	vector := shapes.Make(dtypes.Float32, 512)
	rigid := fused.Own{Kernel: triton.Kernel{Name: "rigid", Inputs: []shapes.Shape{vector}, Outputs: []shapes.Shape{vector}},
		Plain: func(in ...*Node) *Node { return in[0] }}
	for _, tt := range []struct {
		name string
		of   func(x *Node) *Node
		want string
	}{
		{"a batch of four", func(x *Node) *Node { return rigid.Apply(x) }, "kernel rigid got input 0 of (Float32)[2, 128], 256 elements: it takes 512. A net's batches differ"},
		{"too many arrays", func(x *Node) *Node { return rigid.Apply(x, x) }, "kernel rigid got 2 arrays: it takes 1"},
		{"none", func(*Node) *Node { return rigid.Apply() }, "kernel rigid got 0 arrays: it takes 1"},
		{"no output", func(x *Node) *Node { return fused.Own{Kernel: triton.Kernel{Name: "silent"}}.Apply(x) }, "kernel silent has 0 outputs: want one"},
	} {
		net := models.Net{Name: "own", Input: []int{128}, Function: func(_ *model.Scope, in models.Inputs) *Node { return tt.of(in["x"]) }}
		if _, err := Attach(open(t), "own", net, Config{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
