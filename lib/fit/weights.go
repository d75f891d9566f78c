package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/fit/result"
	"gaiden/lib/session"
)

// Weights copies the variables that training continues from, layer by layer.
func (n *Net) Weights() (Tensors, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	return n.weights(n.layout.variables)
}

// weights are the net's variables, by the values of some slots, one for each.
func (n *Net) weights(values []slot) ([]Tensor, error) {
	slots := n.floats()
	var from []slot
	for i, v := range n.layout.variables {
		if slices.ContainsFunc(slots, func(s slot) bool { return s.name == v.name }) {
			from = append(from, values[i])
		}
	}
	arrays, err := n.state(from)
	if err != nil {
		return nil, err
	}
	defer free(arrays...)
	if err := n.session.Wait(); err != nil { // the host takes memory only for what is there
		return nil, err
	}
	all := make([]Tensor, len(slots))
	for i, s := range slots {
		all[i] = Tensor{Name: s.name, Dims: slices.Clone(s.shape.Dimensions), Data: make([]float32, s.shape.Size())}
		if s.shape.DType == dtypes.Int8 {
			err = n.dequantize(s, arrays[i], all[i].Data)
		} else {
			err = arrays[i].Values(all[i].Data)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// scalesOf is the slot of the scales of int8 weights.
func (n *Net) scalesOf(s slot) slot {
	name := strings.TrimSuffix(s.name, "weights") + "scales"
	return n.layout.variables[slices.IndexFunc(n.layout.variables, func(v slot) bool { return v.name == name })]
}

// scaleOf is the index of the scale of each int8 weight [rows columns]: scales are for each column,
// or [rows 1].
func scaleOf(weights, scales slot) func(i int) int {
	columns := weights.shape.Dimensions[1]
	if scales.shape.Rank() == 2 {
		return func(i int) int { return i / columns }
	}
	return func(i int) int { return i % columns }
}

// dequantize reads int8 weights, each times its scale.
func (n *Net) dequantize(s slot, a *session.Array, to []float32) error {
	of := n.scalesOf(s)
	arrays, err := n.state([]slot{of})
	if err != nil {
		return err
	}
	defer free(arrays...)
	small, scales := make([]int8, len(to)), make([]float32, of.shape.Size())
	if err := errors.Join(a.Values(small), arrays[0].Values(scales)); err != nil {
		return err
	}
	at := scaleOf(s, of)
	for i, q := range small {
		to[i] = float32(q) * scales[at(i)]
	}
	return nil
}

// quantize is weights as int8, with their scales: the largest weight of each is 127.
func quantize(weights []float32, s, of slot) (small []int8, scales []float32) {
	small, scales = make([]int8, len(weights)), make([]float32, of.shape.Size())
	at := scaleOf(s, of)
	for i, w := range weights {
		scales[at(i)] = max(scales[at(i)], float32(math.Abs(float64(w)))/127)
	}
	for i, w := range weights {
		if scale := scales[at(i)]; scale > 0 {
			small[i] = int8(math.RoundToEven(float64(w / scale)))
		}
	}
	return small, scales
}

// SetWeights replaces variables by name and resets the optimizer.
func (n *Net) SetWeights(values []Tensor) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.assertFree(); err != nil {
		return err
	}
	return n.setWeights(values)
}

func (n *Net) setWeights(values []Tensor) error {
	known := map[string]slot{}
	var names []string
	for _, s := range n.floats() {
		known[s.name] = s
		names = append(names, s.name)
	}
	if len(values) == 0 {
		return fmt.Errorf("fit: %s: no weights given: want some of those that net.Weights() lists", n.name)
	}
	wrong := &result.ArchitectureError{Net: n.name, Model: n.model.Name, Weights: true}
	given := map[string]bool{}
	var slots []slot
	var arrays []*session.Array
	defer func() { free(arrays...) }()
	for _, v := range values {
		s, is := known[v.Name]
		twice := given[v.Name]
		given[v.Name] = true
		switch {
		case twice:
			wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s is given twice, want it once", v.Name))
		case !is:
			wrong.Differences = append(wrong.Differences, fmt.Sprintf("there is no variable %s (there are %s, …)", v.Name, names[0]))
		case !slices.Equal(v.Dims, s.shape.Dimensions) || len(v.Data) != s.shape.Size():
			wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s is %v with %d numbers, want %v", v.Name, v.Dims, len(v.Data), s.shape.Dimensions))
		case slices.ContainsFunc(v.Data, func(x float32) bool { return x != x }):
			return fmt.Errorf("fit: %s: number %d of %s is NaN: want numbers", n.name, slices.IndexFunc(v.Data, func(x float32) bool { return x != x }), v.Name)
		case s.shape.DType == dtypes.Int8:
			of := n.scalesOf(s)
			small, scales := quantize(v.Data, s, of)
			a, err1 := n.session.Put(small, s.shape, 0)
			b, err2 := n.session.Put(scales, of.shape, 0)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			slots, arrays = append(slots, s, of), append(arrays, a, b)
		default:
			a, err := n.session.Put(v.Data, s.shape, 0)
			if err != nil {
				return err
			}
			slots, arrays = append(slots, s), append(arrays, a)
		}
	}
	if len(wrong.Differences) > 0 {
		sort.Strings(wrong.Differences)
		return wrong
	}
	rest := append(slices.Clone(n.layout.moments), n.layout.step)
	for _, v := range n.layout.variables {
		if v.name == lossScale {
			rest = append(rest, v)
		}
	}
	zeros, err := n.zeros(rest)
	if err != nil {
		return err
	}
	slots, arrays = append(slots, rest...), append(arrays, zeros...)
	return n.bind(slots, arrays)
}

// floats are the slots of the variables that hold numbers of the model. Weights that are int8
// have their scales within them.
func (n *Net) floats() []slot {
	var l []slot
	for _, v := range n.layout.variables {
		layer, scales := strings.CutSuffix(v.name, "/scales")
		if scales && slices.ContainsFunc(n.layout.variables, func(w slot) bool { return w.name == layer+"/weights" && w.shape.DType == dtypes.Int8 }) {
			continue
		}
		if (v.shape.DType.IsFloat() || v.shape.DType == dtypes.Int8) && !n.recreated(v.name) {
			l = append(l, v)
		}
	}
	return l
}
