package optim

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
)

// start is the weights that wrappers.py begins with.
var start = []float64{0.5, -1, 2, 0.125}

// wanted reads testdata/wrappers.json, by wrappers.py there.
func wanted(t *testing.T) (want struct {
	EMA, SWA map[string][]float64
	Groups   [][]float64
	Clipped  []float64
	Muon     map[string][]float64
}) {
	t.Helper()
	raw, err := os.ReadFile("testdata/wrappers.json")
	if err == nil {
		err = json.Unmarshal(raw, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// TestAverages holds averaged weights to PyTorch's AveragedModel, as a rule.
func TestAverages(t *testing.T) {
	want := wanted(t)
	for name, tt := range map[string]struct {
		o    Optimizer
		want map[string][]float64
	}{
		"EMA": {EMA{Optimizer: Adam{LearningRate: 0.1}, Decay: 0.9}, want.EMA},
		"SWA": {SWA{Optimizer: Adam{LearningRate: 0.1}, Start: 12, Every: 5}, want.SWA},
	} {
		r := tt.o.Rule()
		if title, moments := Title(tt.o); title != "adam" || !slices.Equal(moments, []string{"m", "v", "average"}) || !slices.Equal(moments, r.Kept) {
			t.Errorf("%s: title %s, moments %v, rule's %v", name, title, moments, r.Kept)
		}
		state := make([][]float64, len(start))
		for i, w := range start {
			state[i] = []float64{w, 0, 0, 0}
		}
		for step := 1; step <= 30; step++ {
			for i, s := range state {
				state[i] = elementwise.Step(elementwise.Float64, r, map[string]float64{"rate": tt.o.Rate(), "t": float64(step)}, s, math.Sin(1+float64(i)+3*float64(step))+s[0]/4)
			}
			for i, x := range tt.want[fmt.Sprint(step)] {
				if step == 1 && name == "SWA" || step == 2 && name == "SWA" {
					x = state[i][0] // PyTorch's copy is that of the first weights until the average begins
				}
				if math.Abs(state[i][3]-x) > 1e-9 {
					t.Errorf("%s: average %d after step %d is %v, want %v", name, i, step, state[i][3], x)
				}
			}
		}
	}
}

// trained are variables after some steps in GoMLX's operations, float32: each begins with w,
// and has the gradients of wrappers.py.
func trained(t *testing.T, o Optimizer, names []string, w []float64, steps int, dims ...int) [][]float32 {
	t.Helper()
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	exec, err := NewExec(backend, func(g *Graph) []*Node {
		shape := shapes.Make(dtypes.Float32, dims...)
		index := Iota(g, shapes.Make(dtypes.Float32, shape.Size()), 0)
		rate := Scalar(g, dtypes.Float32, o.Rate())
		values, moments := make([]*Node, len(names)), make([][]*Node, len(names))
		for i := range names {
			values[i] = ConvertDType(Reshape(Const(g, w), dims...), dtypes.Float32)
		}
		for step := 1; step <= steps; step++ {
			gradients := make([]*Node, len(names))
			for i := range names {
				gradients[i] = Add(Reshape(Sin(AddScalar(index, 1+3*float64(step))), dims...), MulScalar(values[i], 0.25))
			}
			for i, gradient := range ClipGradients(o, gradients) {
				if of := For(o, names[i], shape); of != nil {
					_, kept := Title(of)
					for len(moments[i]) < len(kept) {
						moments[i] = append(moments[i], ZerosLike(values[i]))
					}
					values[i], moments[i] = Update(of, rate, Scalar(g, dtypes.Float32, float64(step)), values[i], gradient, moments[i])
				}
			}
		}
		return values
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call()
	if err != nil {
		t.Fatal(err)
	}
	l := make([][]float32, len(out))
	for i, x := range out {
		x.ConstFlatData(func(flat any) { l[i] = slices.Clone(flat.([]float32)) })
	}
	return l
}

func same(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for i, x := range want {
		if math.Abs(float64(got[i])-x) > 2e-5 {
			t.Errorf("%s: weight %d is %v, want %v", what, i, got[i], x)
		}
	}
}

// TestGroups holds parameter groups to PyTorch's: no decay, another rate, another decay, and
// that what is frozen stays.
func TestGroups(t *testing.T) {
	want := wanted(t).Groups
	o := Groups{Optimizer: AdamW{LearningRate: 0.1}, Groups: []Group{
		{Names: []string{"*/none", "*/biases"}, NoDecay: true}, {Names: []string{"head/*"}, Rate: 0.2},
		{Names: []string{"b*y/w*"}, Decay: 2}, {Names: []string{"fixed/*"}, Frozen: true},
		{Names: []string{"sgd"}, Optimizer: SGD{LearningRate: 0.05}},
	}}
	names := []string{"dense/weights", "a/b/biases", "head/weights", "body/weights", "fixed/mean", "sgd"}
	for wrapped, o := range map[string]Optimizer{"groups": o, "EMA": EMA{Optimizer: o}, "clipped": Clipped{Optimizer: o, Value: 1e6}, "scheduled": Scheduled{Optimizer: o, Schedule: Warmup{}}} {
		got := trained(t, o, names, start, 30, 4)
		for i, w := range want {
			same(t, wrapped+" "+names[i], got[i], w)
		}
		same(t, wrapped+" frozen", got[4], start)
		same(t, wrapped+" SGD", got[5], f64(trained(t, SGD{LearningRate: 0.05}, []string{"sgd"}, start, 30, 4)[0]))
		if got := Unused(o, names); got != "*/none" {
			t.Errorf("%s: pattern %q is unused, want */none", wrapped, got)
		}
	}
}

func f64(l []float32) (m []float64) {
	for _, x := range l {
		m = append(m, float64(x))
	}
	return m
}

// TestClippedOracle holds clipping by value to PyTorch's clip_grad_value_.
func TestClippedOracle(t *testing.T) {
	same(t, "clipped", trained(t, Clipped{Optimizer: SGD{LearningRate: 0.1}, Value: 0.3}, []string{"w"}, start, 30, 4)[0], wanted(t).Clipped)
}

// TestMuon holds Muon to PyTorch's, tall and wide, and that vectors have Others.
func TestMuon(t *testing.T) {
	want := wanted(t).Muon
	for name, o := range map[string]Muon{"3 5": {}, "5 3": {LearningRate: 0.02, WeightDecay: 0.3, Momentum: 0.9}, "4 4": {Plain: true}} {
		var in, out int
		fmt.Sscan(name, &in, &out)
		w := make([]float64, in*out)
		for i := range w {
			w[i] = math.Sin(0.7 * float64(i))
		}
		same(t, name, trained(t, o, []string{"w"}, w, 10, in, out)[0], want[name])
	}
	vector := trained(t, Muon{LearningRate: 0.02, Others: SGD{LearningRate: 0.1}}, []string{"b"}, start, 5, 4)[0]
	same(t, "vector", vector, f64(trained(t, SGD{LearningRate: 0.1}, []string{"b"}, start, 5, 4)[0]))
	groups := Groups{Optimizer: Muon{}, Groups: []Group{{Names: []string{"w"}, NoDecay: true}}}
	if got := For(groups, "w", shapes.Make(dtypes.Float32, 2, 3)).(scaled).Optimizer.(orthogonal).decay(); got != undecayed {
		t.Errorf("a matrix without decay has a decay of %v", got)
	}
}

// TestWrappersCheck holds which settings are refused, and by which words.
func TestWrappersCheck(t *testing.T) {
	for _, tt := range []struct {
		o    Optimizer
		want string
	}{
		{Groups{}, "Optimizer of optim.Groups is nil"}, {Groups{Optimizer: Adam{}, Groups: []Group{{}}}, "Names of group 0"},
		{Groups{Optimizer: Adam{}, Groups: []Group{{Names: []string{"a"}, Rate: -1}}}, "Rate -1"},
		{Groups{Optimizer: Adam{}, Groups: []Group{{Names: []string{"a"}, NoDecay: true, Decay: 2}}}, "want one of them"},
		{Groups{Optimizer: Adam{}, Groups: []Group{{Names: []string{"a"}, Frozen: true, Rate: 2}}}, "is Frozen and has other settings"},
		{Groups{Optimizer: Adam{}, Groups: []Group{{Names: []string{"a"}, Optimizer: Adam{Beta1: 3}}}}, "group 0 (a): Beta1 of adam is 3"},
		{Groups{Optimizer: Adam{}, Groups: []Group{{Names: []string{"a"}, Optimizer: Clipped{Optimizer: Adam{}, Norm: 1}}}}, "want Clipped around Groups"},
		{EMA{}, "Optimizer of optim.EMA is nil"}, {EMA{Optimizer: Adam{}, Decay: 1}, "Decay of optim.EMA is 1"}, {EMA{Optimizer: SWA{Optimizer: Adam{}}}, "want one of EMA and SWA"},
		{SWA{Optimizer: Adam{}, Every: -1}, "Every -1"}, {Muon{Steps: 30}, "Steps of muon are 30"}, {Muon{Momentum: 1}, "Momentum of muon is 1"}, {Muon{Others: Adam{Beta2: 2}}, "Beta2 of adam is 2"},
		{Muon{}, ""}, {Groups{Optimizer: Muon{}, Groups: []Group{{Names: []string{"a"}, Optimizer: AdamW{}}}}, ""},
	} {
		if err := Check(tt.o); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.o, err, tt.want)
		}
	}
}
