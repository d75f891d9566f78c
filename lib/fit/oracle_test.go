package fit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"

	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// oracle is testdata/oracle.json, which testdata/oracle.py wrote.
type oracle struct {
	Nets map[string]struct {
		Batch, Params      int
		Loss               float64
		Out                picked
		Gradients, Running map[string]picked
	}
	Optimizers map[string]struct {
		Losses  []float64
		Weights map[string]picked
	}
}

// picked are some elements of an array, at hashed places (all of a small one),
// and sums over all its elements.
type picked struct {
	N              int
	Max, Norm, Dot float64 // Dot is with formula(name + "/dot", N)
	At             []float64
}

func readOracle(t *testing.T) (o oracle) {
	t.Helper()
	b, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// near holds that the elements picked from an array are those of got, within
// part of the array's largest, and both sums within part of its norm. Dot is some
// 0.29 of the norm, by either sign: an axis flipped moves it by some 0.4.
func (p picked) near(t *testing.T, name string, got []float32, part float64) {
	t.Helper()
	p.nearer(t, name, got, part, 1e-12)
}

// nearer is near, and allows rest besides: what rounding leaves where all are 0.
func (p picked) nearer(t *testing.T, name string, got []float32, part, rest float64) {
	t.Helper()
	if len(got) != p.N {
		t.Errorf("%s: got %d numbers, want %d", name, len(got), p.N)
		return
	}
	largest, squares, dot := 0.0, 0.0, 0.0
	salt := crc32.ChecksumIEEE([]byte(name + "/dot"))
	for i, x := range got {
		x := float64(x)
		largest = max(largest, math.Abs(x))
		squares += x * x
		dot += x * float64(number(salt, i))
	}
	within, sums := part*p.Max+rest, part*p.Norm+rest*math.Sqrt(float64(p.N))
	for _, c := range []struct {
		what              string
		got, want, within float64
	}{
		{"largest", largest, p.Max, within},
		{"norm", math.Sqrt(squares), p.Norm, sums},
		{"dot product", dot, p.Dot, sums},
	} {
		if d := math.Abs(c.got - c.want); d > c.within || d != d {
			t.Errorf("%s: %s is %g, want %g within %g", name, c.what, c.got, c.want, c.within)
		}
	}
	salt = crc32.ChecksumIEEE([]byte(name))
	for j, want := range p.At {
		i := j
		if p.N > len(p.At) {
			i = int(hash(salt, j) % uint32(p.N))
		}
		if d := math.Abs(float64(got[i]) - want); d > within || d != d {
			t.Errorf("%s[%d]: got %g, want %g within %g", name, i, got[i], want, within)
			return
		}
	}
}

// formula is n numbers from -0.5 to 0.5, by name: numbers of oracle.py.
func formula(name string, n int) []float32 {
	salt := crc32.ChecksumIEEE([]byte(name))
	l := make([]float32, n)
	for i := range l {
		l[i] = number(salt, i)
	}
	return l
}

func number(salt uint32, i int) float32 { return float32(hash(salt, i)>>8)/(1<<24) - 0.5 }

func hash(salt uint32, i int) uint32 {
	u := uint32(i)*2654435761 + salt
	u ^= u >> 15
	u *= 2246822519
	return u ^ u>>13
}

// formulaWeights are what oracle.py gives the variables of a net.
func formulaWeights(n *Net) []Tensor { return decidedWeights(n, false) }

// decidedWeights are formulaWeights, with the offsets of batch norm that leave
// nothing of ReLU to rounding if they are to be decided: see oracle.py.
func decidedWeights(n *Net, decided bool) []Tensor {
	var all []Tensor
	for _, s := range n.floats() {
		if !s.trainable {
			continue
		}
		v := Tensor{Name: s.name, Dims: s.shape.Dimensions, Data: formula(s.name, s.shape.Size())}
		scale, add := float32(1), float32(0)
		if strings.HasSuffix(s.name, "/scale") {
			add = 1
		} else if len(v.Dims) > 1 {
			scale = float32(2 / math.Sqrt(float64(len(v.Data)/v.Dims[len(v.Dims)-1])))
		}
		offset := decided && strings.HasSuffix(s.name, "/offset")
		if offset {
			add = 5
		}
		for i := range v.Data {
			v.Data[i] = add + v.Data[i]*scale
			if offset && i%4 == 3 {
				v.Data[i] *= -1
			}
		}
		all = append(all, v)
	}
	return all
}

// formulaData are a batch as oracle.py has it.
func formulaData(name string, batch, in, out int) Data {
	half := func(l []float32) []float32 {
		for i := range l {
			l[i] += 0.5
		}
		return l
	}
	d := Data{X: half(formula(name+"/x", batch*in))}
	if out == 0 {
		labels := make([]int32, batch)
		for i := range labels {
			labels[i] = int32(i * 7 % 10)
		}
		d.Y = labels
		return d
	}
	d.Y = half(formula(name+"/y", batch*out))
	d.V = formula(name+"/v", batch*out)
	for i, v := range d.V {
		d.V[i] = 0
		if v > 0 {
			d.V[i] = 1
		}
	}
	return d
}

// without takes dropout out of a net: its numbers are random.
func without(net models.Net) models.Net {
	var l []models.Layer
	for _, layer := range net.Layers {
		if _, is := layer.(models.Dropout); !is {
			l = append(l, layer)
		}
	}
	net.Layers = l
	return net
}

// TestOracle holds that output, loss and every gradient of every net are those
// of PyTorch, which computes in float64. The tolerance is a part of each array's
// largest element, and of its norm for sums. Deep nets of batch norms have decided
// weights, and offsets whose gradient is 0, for the batch norm after them takes it
// away.
func TestOracle(t *testing.T) {
	t.Parallel()
	o := readOracle(t)
	tests := []struct {
		name      string
		net       models.Net
		out       int // numbers a target, 0 for labels
		loss      losses.Loss
		tolerance float64
		deep      float64 // of gradients; more than 0 has decided weights
	}{
		{"SeedCNN", models.SeedCNN(), 0, nil, 1e-5, 0},
		{"MLP", models.MLP(1000), 0, nil, 1e-5, 0},
		{"KerasCNN", models.KerasCNN(), 0, nil, 1e-5, 0},
		{"LeNet5", models.LeNet5(), 0, nil, 1e-4, 0},
		{"Peaks", models.Peaks(), 1, nil, 1e-5, 0},
		{"FCN", models.FCN(784, []int{300, 100}, 10), 0, nil, 1e-5, 0},
		{"SineLSTM", models.SineLSTM(5, 20), 20, nil, 1e-5, 0},
		{"DeepPose", models.DeepPose(14), 28, losses.Visibility{}, 1e-4, 0},
		{"Peaks/seen", models.Peaks(), 1, losses.Visibility{Explicit: true}, 1e-5, 0},
		{"Peaks/blind", models.Peaks(), 1, losses.Visibility{Blind: true}, 1e-5, 0},
		{"ResNet14", models.ResNet("ResNet14", 1, 1, 1, 1), 0, nil, 1e-3, 0},
		{"ResNet50", models.ResNet50(), 0, nil, 1e-4, 1e-3},
		{"ResNet152", models.ResNet152(), 0, nil, 1e-3, 5e-3},
	}
	s := open(t)
	ctx := context.Background()
	for i, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, "/", " "), func(t *testing.T) {
			want, is := o.Nets[tt.name]
			if !is {
				t.Fatalf("oracle.json has no %s: run oracle.py", tt.name)
			}
			c := Config{Loss: tt.loss, Optimizer: optim.SGD{}}
			if tt.deep == 0 {
				c.Flags = optimized
			}
			n := attach(t, s, fmt.Sprint("net", i), without(tt.net), c)
			t.Cleanup(func() { n.Reset() })
			weights := decidedWeights(n, tt.deep > 0)
			if err := n.SetWeights(weights); err != nil {
				t.Fatal(err)
			}
			params := 0
			for _, w := range weights {
				params += len(w.Data)
			}
			if params != want.Params {
				t.Errorf("parameters: got %d, want %d", params, want.Params)
			}
			in := 1
			for _, d := range tt.net.Input {
				in *= d
			}
			base, _, _ := strings.Cut(tt.name, "/")
			d := formulaData(base, want.Batch, in, tt.out)
			if tt.loss == nil {
				d.V = nil
			}
			data := load(t, n, fmt.Sprint("data", i), d)
			p, err := n.WithContext(ctx).Phases(data, want.Batch)
			if err != nil {
				t.Fatal(err)
			}
			p.InOrder = true
			if err := errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update()); err != nil {
				t.Fatal(err)
			}
			loss, err := p.Value()
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(loss-want.Loss) > tt.tolerance*want.Loss {
				t.Errorf("loss: got %v, want %v", loss, want.Loss)
			}
			out, err := p.Output()
			if err != nil {
				t.Fatal(err)
			}
			want.Out.near(t, "output", out, tt.tolerance)
			gradients, err := p.Gradients()
			if err != nil {
				t.Fatal(err)
			}
			if len(gradients) != len(want.Gradients) {
				t.Errorf("gradients: got %d, want %d", len(gradients), len(want.Gradients))
			}
			part, rest := tt.tolerance, 1e-12
			if tt.deep > 0 {
				part, rest = tt.deep, 1e-5
			}
			for name, g := range want.Gradients {
				g.nearer(t, name, gradients[name], part, rest)
			}
			after, err := n.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range after {
				if r, is := want.Running[w.Name]; is {
					r.near(t, w.Name, w.Data, tt.tolerance)
				}
			}
		})
	}
}

// TestOptimizers holds that ten steps of each optimizer are PyTorch's.
func TestOptimizers(t *testing.T) {
	t.Parallel()
	o := readOracle(t)
	tests := []struct {
		name      string
		optimizer optim.Optimizer
	}{
		{"sgd", optim.SGD{LearningRate: 0.05}},
		{"sgd decay", optim.SGD{LearningRate: 0.05, WeightDecay: 0.1}},
		{"momentum", optim.SGD{LearningRate: 0.05, Momentum: 0.9}},
		{"momentum decay", optim.SGD{LearningRate: 0.05, Momentum: 0.9, WeightDecay: 0.1}},
		{"nesterov", optim.SGD{LearningRate: 0.05, Momentum: 0.9, Nesterov: true}},
		{"adam", optim.Adam{LearningRate: 0.08}},
		{"adam betas", optim.Adam{LearningRate: 0.01, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3, WeightDecay: 0.01}},
		{"adadelta", optim.AdaDelta{}},
		{"adadelta keras", optim.AdaDelta{LearningRate: 0.001, Rho: 0.95, Epsilon: 1e-7}},
		{"adadelta decay", optim.AdaDelta{LearningRate: 0.5, WeightDecay: 0.1}},
	}
	s := open(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := o.Optimizers[tt.name]
			n := attach(t, s, fmt.Sprint("net", i), models.Peaks(), Config{Optimizer: tt.optimizer, FirstLook: true})
			if err := n.SetWeights(formulaWeights(n)); err != nil {
				t.Fatal(err)
			}
			d := formulaData("Peaks", 50, 2, 1)
			d.V = nil
			data := load(t, n, "peaks", d)
			h, err := n.Fit(data, Train{Epochs: 10, Batch: 50, InOrder: true})
			if err != nil {
				t.Fatal(err)
			}
			for k, l := range want.Losses {
				if math.Abs(float64(h.Losses[k])-l) > 1e-5*l {
					t.Errorf("loss of step %d: got %v, want %v", k+1, h.Losses[k], l)
				}
			}
			after, err := n.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range after {
				want.Weights[w.Name].near(t, w.Name, w.Data, 1e-5)
			}
		})
	}
}
