package fit

// In a file a convolution's weight is [out in kernel kernel] and a dense layer's [out in],
// with the inputs of a layer after Flatten in PyTorch's order (channels first); an LSTM has
// zeros for the second of the two biases that nn.LSTM adds. Variables of other layers keep
// their names and layouts. Floats of any width become float32; PyTorch's counters
// num_batches_tracked may be surplus.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/files"
	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fit/result"
)

// SaveWeights writes the net's variables to a safetensors file, with the names and layouts that
// PyTorch has for the same layers: the values that Evaluate and Predict use, which are the
// averages where optim.EMA or SWA keeps some.
func (n *Net) SaveWeights(path string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	if err := files.Check(path); err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.name, err)
	}
	used, err := n.averaged()
	if err != nil {
		return err
	}
	all, err := n.weights(used)
	if err != nil {
		return err
	}
	rules, err := n.rules()
	if err != nil {
		return err
	}
	if err := writeTensors(path, rules.out(all)); err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.name, err)
	}
	return nil
}

// writeTensors writes a safetensors file.
func writeTensors(path string, all []Tensor) error {
	h := &safetensors.Header{Metadata: map[string]string{"format": "pt"}} // Hugging Face's libraries want to know
	data := map[string][]float32{}
	for _, t := range all {
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: t.Name, DType: "F32", Shape: t.Dims})
		data[t.Name] = t.Data
	}
	w, err := safetensors.Create(path, h)
	if err != nil {
		return err
	}
	for i, t := range w.Tensors {
		if err := w.Write(i, dtypes.UnsafeByteSliceFromAny(data[t.Name])); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Close()
}

// LoadWeights reads the net's variables, or only those of some layers, from what SaveWeights or
// PyTorch wrote: a file, the index of several, or a directory with one of them. Where one is
// missing, surplus or of another shape, the error says so and the net stays as it is.
// The optimizer's state is reset.
func (n *Net) LoadWeights(path string, layers ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.assertFree(); err != nil {
		return err
	}
	c, err := safetensors.OpenCheckpoint(path)
	if err != nil {
		return fmt.Errorf("fit: %s: load %s: %w", n.name, path, err)
	}
	defer c.Close()
	rules, err := n.rules()
	if err != nil {
		return err
	}
	slots, err := n.ofLayers(layers)
	if err != nil {
		return err
	}
	wanted, err := n.match(path, c.Tensors, rules, slots, layers)
	if err != nil {
		return err
	}
	all := make([]Tensor, len(wanted))
	for k, i := range wanted {
		t := c.Tensors[i]
		data, err := c.Floats(i)
		if err != nil {
			return fmt.Errorf("fit: %s: load %s: %w", n.name, path, err)
		}
		all[k] = Tensor{t.Name, t.Shape, data}
	}
	return n.setWeights(rules.in(all))
}

// ofLayers are the slots of the floats of these layers, or of all where none is named.
func (n *Net) ofLayers(layers []string) ([]slot, error) {
	if len(layers) == 0 {
		return n.floats(), nil
	}
	var l []slot
	for _, layer := range layers {
		before := len(l)
		for _, s := range n.floats() {
			if strings.HasPrefix(s.name, layer+"/") {
				l = append(l, s)
			}
		}
		if len(l) == before {
			return nil, fmt.Errorf("fit: %s: load of layer %q: want one that has weights; %s has %s", n.name, layer, n.model.Name, strings.Join(n.model.Names(), ", "))
		}
	}
	return l, nil
}

// match finds the tensors of a file that the slots want, or says all that is wrong.
func (n *Net) match(path string, there []safetensors.Tensor, rules rules, slots []slot, layers []string) (wanted []int, err error) {
	at := map[string]int{}
	for i, t := range there {
		at[t.Name] = i
	}
	wrong := &result.ArchitectureError{Net: n.name, Model: n.model.Name, Weights: true, File: path}
	used := map[string]bool{}
	use := func(name string, dims []int) {
		t := there[at[name]]
		used[name] = true
		wanted = append(wanted, at[name])
		if !slices.Equal(t.Shape, dims) {
			wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s is %v, want %v", name, t.Shape, dims))
		}
		if !t.IsFloat() {
			wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s has elements of %s, want one of %s", name, t.DType, safetensors.FloatTypes()))
		}
	}
	for _, s := range slots {
		name, dims := s.name, s.shape.Dimensions
		if r, is := rules[s.name]; is {
			if _, own := at[s.name]; !own { // else it was written with our names
				name, dims = r.name, r.dims(dims)
			}
		}
		if _, is := at[name]; !is {
			wrong.Missing = append(wrong.Missing, fmt.Sprintf("%s %v", name, dims))
			continue
		}
		use(name, dims)
		if base, is := strings.CutSuffix(name, "bias_ih_l0"); is {
			if _, second := at[base+"bias_hh_l0"]; second {
				use(base+"bias_hh_l0", dims)
			}
		}
	}
	for _, t := range there {
		if !used[t.Name] && of(t.Name, layers) && !rules.counts(t) {
			wrong.Surplus = append(wrong.Surplus, fmt.Sprintf("%s %v", t.Name, t.Shape))
		}
	}
	if len(wrong.Differences)+len(wrong.Missing)+len(wrong.Surplus) > 0 {
		return nil, wrong
	}
	return wanted, nil
}

// of says whether a name in a file is of one of these layers, of which none is all.
func of(name string, layers []string) bool {
	return len(layers) == 0 || slices.ContainsFunc(layers, func(layer string) bool {
		return strings.HasPrefix(name, strings.ReplaceAll(layer, "/", ".")+".") || strings.HasPrefix(name, layer+"/")
	})
}

// counts says whether a tensor is what PyTorch's batch norm counts and nothing here
// needs: an integer.
func (all rules) counts(t safetensors.Tensor) bool {
	base, is := strings.CutSuffix(t.Name, ".num_batches_tracked")
	if !is || t.IsFloat() || len(t.Shape) > 0 {
		return false
	}
	for _, r := range all {
		if r.name == base+".running_mean" {
			return true
		}
	}
	return false
}
