package resident

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gaiden/lib/elementwise"
	"gaiden/lib/engine/ptx/emulate"
	"gaiden/lib/optim"
)

// net is the same training in float64, layer by layer.
type net struct {
	m     MLP
	w, b  [3]array // weights [in out] and biases
	sizes [4]int
}

// array is numbers and up to two moments of each.
type array struct{ x, m, v []float64 }

// kept are those that a rule keeps.
func (a array) kept(m MLP) [][]float64 { return [][]float64{a.x, a.m, a.v}[:m.arrays()] }

func (n *net) step(x [][]float32, labels []int32, pace, epsilon float64) (loss, hits float64) {
	var gw, gb [3][]float64
	for l := range 3 {
		gw[l], gb[l] = make([]float64, len(n.w[l].x)), make([]float64, len(n.b[l].x))
	}
	for e, example := range x {
		h := [4][]float64{make([]float64, n.sizes[0])}
		for k, p := range example {
			h[0][k] = float64(p)
		}
		for l := range 3 {
			h[l+1] = append([]float64{}, n.b[l].x...)
			for k, x := range h[l] {
				for o := range h[l+1] {
					h[l+1][o] += x * n.w[l].x[k*n.sizes[l+1]+o]
				}
			}
			for o, x := range h[l+1] {
				if l < 2 {
					h[l+1][o] = max(0, x)
				}
			}
		}
		most, which, total := math.Inf(-1), 0, 0.0
		for c, z := range h[3] {
			if z > most {
				most, which = z, c
			}
		}
		for _, z := range h[3] {
			total += math.Exp(z - most)
		}
		loss += math.Log(total) + most - h[3][labels[e]]
		if which == int(labels[e]) {
			hits++
		}
		d := make([]float64, n.sizes[3])
		for c, z := range h[3] {
			if d[c] = math.Exp(z-most) / total; c == int(labels[e]) {
				d[c]--
			}
			d[c] /= float64(len(x))
		}
		for l := 2; l >= 0; l-- {
			below := make([]float64, n.sizes[l])
			for k, x := range h[l] {
				for o, g := range d {
					gw[l][k*n.sizes[l+1]+o] += x * g
					below[k] += g * n.w[l].x[k*n.sizes[l+1]+o]
				}
				if x <= 0 {
					below[k] = 0
				}
			}
			for o, g := range d {
				gb[l][o] += g
			}
			d = below
		}
	}
	for l := range 3 {
		n.follow(n.w[l], gw[l], pace, epsilon)
		n.follow(n.b[l], gb[l], pace, epsilon)
	}
	return loss / float64(len(x)), hits
}

func (n *net) follow(a array, gradients []float64, pace, epsilon float64) {
	scalars := map[string]float64{}
	for i, e := range n.m.Rule.Scalars() {
		scalars[e.Key()] = []float64{pace, epsilon}[i]
	}
	for i, g := range gradients {
		next := elementwise.Step(elementwise.Float64, n.m.Rule, scalars, []float64{a.x[i], a.m[i], a.v[i]}[:1+n.m.Rule.Moments()], g)
		for k, to := range []*float64{&a.x[i], &a.m[i], &a.v[i]}[:len(next)] {
			*to = next[k]
		}
	}
}

// TestMLP holds that the kernel does the steps of the net, bit for bit twice, and that
// its blocks wait for each other where they must: package emulate refuses what is not
// ordered.
func TestMLP(t *testing.T) {
	for _, m := range []MLP{
		{Examples: 40, Batch: 12, In: 24, Hidden: [2]int{100, 70}, Classes: 3, Steps: 3, Rows: 5, slices: 2},
		{Examples: 60, Batch: 25, In: 56, Hidden: [2]int{129, 200}, Classes: 10, Steps: 2, Rows: 2, slices: 2, Rule: optim.Adam{WeightDecay: 0.01}.Rule()},
		{Examples: 64, Batch: 32, In: 16, Hidden: [2]int{64, 1}, Classes: 16, Steps: 2, Rows: 4, slices: 4},
		{Examples: 60, Batch: 25, In: 56, Hidden: [2]int{129, 200}, Classes: 10, Steps: 3, Rows: 3, slices: 2, tight: true},
		{Examples: 70, Batch: 17, In: 24, Floats: true, Hidden: [2]int{30, 128}, Classes: 2, Steps: 3, Rows: 4, slices: 2, tight: true},
		{Examples: 40, Batch: 12, In: 24, Hidden: [2]int{100, 70}, Classes: 3, Steps: 3, Rows: 5, slices: 2, Rule: optim.SGD{WeightDecay: 0.1}.Rule()},
		{Examples: 40, Batch: 12, In: 24, Hidden: [2]int{100, 70}, Classes: 3, Steps: 3, Rows: 5, slices: 2, Rule: optim.SGD{Momentum: 0.9}.Rule()},
		{Examples: 40, Batch: 12, In: 24, Hidden: [2]int{100, 70}, Classes: 3, Steps: 3, Rows: 5, slices: 2, Rule: optim.SGD{Momentum: 0.8, Nesterov: true}.Rule()},
		{Examples: 40, Batch: 12, In: 24, Hidden: [2]int{100, 70}, Classes: 3, Steps: 3, Rows: 5, slices: 2, Rule: optim.AdaDelta{Rho: 0.95, WeightDecay: 0.1}.Rule()},
		{Examples: 99, Batch: 31, In: 40, Floats: true, Hidden: [2]int{30, 128}, Classes: 2, Steps: 3, Rows: 4, slices: 2},
	} {
		if m.Rule == nil {
			m.Rule = optim.Adam{}.Rule()
		}
		t.Run(fmt.Sprintf("%d %v %d b%d tight %t %s %s", m.In, m.Hidden, m.Classes, m.Batch, m.tight, m.Rule.Name(), m.Rule.Weight), func(t *testing.T) {
			t.Parallel()
			if !m.Fits() {
				t.Fatalf("%+v does not fit", m)
			}
			check(t, m)
		})
	}
}

func check(t *testing.T, m MLP) {
	r := rand.New(rand.NewPCG(1, 2))
	n := &net{m: m, sizes: [4]int{m.In, m.Hidden[0], m.Hidden[1], m.Classes}}
	const place, at = 1, 1
	order, labels, x := make([]int32, m.Examples), make([]int32, m.Examples), make([]uint8, m.Examples*m.In)
	for i, k := range r.Perm(m.Examples) {
		order[i], labels[i] = int32(k), int32(r.IntN(m.Classes))
	}
	numbers := make([]float32, len(x))
	for i := range x {
		if x[i] = uint8(r.IntN(256)); m.Floats {
			numbers[i] = float32(r.NormFloat64())
		} else {
			numbers[i] = float32(x[i]) / 255
		}
	}
	in := []any{inOrder: order, inPlace: []int32{place}, inAt: []int32{at}, inX: x, inLabels: labels, inScales: []float32{},
		inCounters: make([]int32, m.Counters()), inRows: make([]float32, 3*m.Rows)}
	if m.Floats {
		in[inX] = numbers
	}
	scales := make([]float32, 2*m.Steps)
	for s := range m.Steps {
		inputs := map[string]float64{"rate": 0.3, "t": float64(at + s + 1)}
		if m.Rule.Name() == "adam" {
			inputs["rate"] = 0.01
		}
		for i, x := range elementwise.Eval(elementwise.Float64, inputs, m.Rule.Scalars()...) {
			scales[2*s+i] = float32(x)
		}
	}
	in[inScales] = scales
	for l := range 3 {
		fresh := func(size int, limit float64) (a array) {
			a = array{make([]float64, size), make([]float64, size), make([]float64, size)}
			for i := range size {
				a.x[i] = float64(float32(limit * (2*r.Float64() - 1)))
				a.m[i], a.v[i] = float64(float32(0.01*r.NormFloat64())), float64(float32(1e-4*r.Float64()))
				if m.Rule.Name() == "adadelta" {
					a.m[i] *= a.m[i]
				}
			}
			for _, part := range a.kept(m) {
				in = append(in, narrow(part))
			}
			return a
		}
		n.w[l] = fresh(n.sizes[l]*n.sizes[l+1], math.Sqrt(6/float64(n.sizes[l]+n.sizes[l+1])))
		n.b[l] = fresh(n.sizes[l+1], 0.1)
	}
	run := func() []any {
		var mine []any
		for _, a := range in {
			switch a := a.(type) {
			case []int32:
				mine = append(mine, append([]int32{}, a...))
			case []float32:
				mine = append(mine, append([]float32{}, a...))
			case []uint8:
				mine = append(mine, a)
			}
		}
		out, err := emulate.Run(m.Kernel(), mine...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run()
	rows := make([]float64, 3*m.Rows)
	for s := range m.Steps {
		first := min(place+(at+s)*m.Batch, m.Examples-m.Batch)
		var batch [][]float32
		var right []int32
		for _, e := range order[first : first+m.Batch] {
			batch, right = append(batch, numbers[int(e)*m.In:int(e+1)*m.In]), append(right, labels[e])
		}
		row := 3 * min(at+s, m.Rows-1)
		rows[row], rows[row+2] = n.step(batch, right, float64(scales[2*s]), float64(scales[2*s+1]))
		rows[row+1] = float64(m.Batch)
	}
	i := 0
	compare := func(what string, want []float64, within float64) {
		t.Helper()
		got := out[i].([]float32)
		if i < len(m.States()) && i%m.arrays() == 0 { // a weight's change
			got, want = slices.Clone(got), slices.Clone(want)
			for k, before := range in[inStates+i].([]float32) {
				got[k] -= before
				want[k] -= float64(before)
			}
			within *= 4 // a larger part of it
		}
		i++
		var off, size float64
		for k := range want {
			off += math.Pow(float64(got[k])-want[k], 2)
			size += math.Pow(want[k], 2)
		}
		if !(math.Sqrt(off) <= within*math.Sqrt(size)) {
			t.Errorf("%s: got %.4v…, want %.4v…: off by %.2e of their norm, want at most %.0e", what, got[:min(4, len(got))], want[:min(4, len(want))], math.Sqrt(off/size), within)
		}
	}
	// Factors of products are cut to ten digits after the point; where that changes the
	// sign of what a ReLU gets, and of a gradient, a weight goes another way.
	for l := range 3 {
		for k, a := range []array{n.w[l], n.b[l]} {
			name := []string{"weights", "biases"}[k]
			for i, part := range a.kept(m) {
				compare(fmt.Sprint(name, l+1, []string{"", " m", " v"}[i]), part, 1e-2)
			}
		}
	}
	compare("rows", rows, 1e-3)
	if got := out[i].([]int32)[0]; got != at+int32(m.Steps) {
		t.Errorf("at: got %d, want %d", got, at+m.Steps)
	}
	again := run()
	for k := range i {
		a, b := out[k].([]float32), again[k].([]float32)
		for e := range a {
			if math.Float32bits(a[e]) != math.Float32bits(b[e]) {
				t.Fatalf("output %d: element %d is %v, and %v when done again", k, e, a[e], b[e])
			}
		}
	}
}

// TestNotFinite holds that a weight or an input that is no number shows in the step's
// loss: a device's own NaN has all bits set, which rounding must not make a 0 of.
func TestNotFinite(t *testing.T) {
	m := MLP{Examples: 16, Batch: 16, In: 8, Floats: true, Hidden: [2]int{20, 20}, Classes: 2, Steps: 1, Rows: 1, slices: 2, Rule: optim.Adam{}.Rule()}
	nan := math.Float32frombits(0x7FFFFFFF)
	for _, array := range []int{-1, inX, inStates, inStates + 6, inStates + 12, inStates + 15} {
		k := m.Kernel()
		var in []any
		for i, s := range k.Inputs {
			if s.DType.IsFloat() {
				l := make([]float32, s.Size())
				for e := range l {
					l[e] = 0.1
				}
				if i == array {
					l[0] = nan
				}
				in = append(in, l)
			} else {
				in = append(in, make([]int32, s.Size()))
			}
		}
		out, err := emulate.Run(k, in...)
		if err != nil {
			t.Fatal(err)
		}
		loss := float64(out[len(m.States())].([]float32)[0])
		if got := !math.IsNaN(loss); got != (array < 0) {
			t.Errorf("NaN in input %d: got a loss of %v", array, loss)
		}
	}
}

func narrow(l []float64) []float32 {
	to := make([]float32, len(l))
	for i, x := range l {
		to[i] = float32(x)
	}
	return to
}
