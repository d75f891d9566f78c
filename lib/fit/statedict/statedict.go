// Package statedict keeps the variables of a net in safetensors files, with the names and layouts
// of PyTorch's state_dict for the same layers, or with those of a [weights.Map].
//
// There a convolution's weight is [out in kernel kernel] and a dense layer's [out in]. Vectors
// that are images for a Flatten or an Unflatten have PyTorch's order, channels first, wherever a
// layer holds these; see features. An LSTM has zeros for the second of the two biases that nn.LSTM
// adds. Variables of other layers, of those that a Function calls, of layers of your own, and of
// layers for whose inputs PyTorch has no order keep their names and layouts. Floats of any width
// become float32; PyTorch's counters num_batches_tracked may be surplus.
package statedict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fit/result"
	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// Net is one whose variables a file has.
type Net struct {
	Name      string // for errors
	Model     models.Net
	Layers    []*models.Built // of its summary
	Variables []Variable      // those that are kept

	// Metadata is texts that Save writes to the file, and to which Load adds the file's.
	Metadata map[string]string
}

// Variable is one of a net's.
type Variable struct {
	Name string // as layers have it: "conv/weights"
	Dims []int
}

// Save writes variables to a file; a map is for other names and layouts than PyTorch's.
func (n Net) Save(path string, all []result.Tensor, how ...weights.Map) error {
	rules, err := n.rules(how)
	if err != nil {
		return err
	}
	if rules.Merge {
		all = merged(all, n.Model.LoRA.Scale())
	}
	if all, err = rules.out(all); err == nil {
		err = writeTensors(path, all, n.Metadata)
	}
	if err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.Name, err)
	}
	return nil
}

// Load reads the variables from a file, the index of several, or a directory, and says what it
// has read. What does not fit is a [result.ArchitectureError].
func (n Net) Load(path string, how ...weights.Map) ([]result.Tensor, weights.Table, error) {
	none := weights.Table{}
	c, err := safetensors.OpenCheckpoint(path)
	if err != nil {
		return nil, none, fmt.Errorf("fit: %s: load %s: %w", n.Name, path, err)
	}
	defer c.Close()
	if n.Metadata != nil && len(c.Tensors) > 0 {
		maps.Copy(n.Metadata, c.Metadata(0))
	}
	rules, err := n.rules(how)
	if err != nil {
		return nil, none, err
	}
	wanted, table, err := n.match(path, c.Tensors, rules)
	if err != nil {
		return nil, none, err
	}
	all := make([]result.Tensor, len(wanted))
	for k, w := range wanted {
		if c.Summed(w.array) && c.Metadata(w.array)[orderKey] == "" && w.reordered() {
			return nil, none, fmt.Errorf("fit: %s: load %s: %s was saved by Gaiden before 0.1.0, which did not say in what order it has what was flattened: save it again, or give the array a weights.Name with an Order", n.Name, path, w.name)
		}
		if all[k], err = w.read(c); err != nil {
			return nil, none, fmt.Errorf("fit: %s: load %s: %w", n.Name, path, err)
		}
	}
	return all, table, nil
}

// merged are variables with LoRA's products in the weights.
func merged(all []result.Tensor, scale float64) (l []result.Tensor) {
	at := map[string]result.Tensor{}
	for _, t := range all {
		at[t.Name] = t
	}
	for _, t := range all {
		layer, weights := strings.CutSuffix(t.Name, "/weights")
		a, b := at[layer+"/lora_a"], at[layer+"/lora_b"]
		switch {
		case strings.HasSuffix(t.Name, "/lora_a") || strings.HasSuffix(t.Name, "/lora_b"):
			continue
		case weights && a.Data != nil:
			rank, out := b.Dims[0], b.Dims[1]
			t.Data = slices.Clone(t.Data)
			for i := range t.Data {
				sum := 0.0
				for r := range rank {
					sum += float64(a.Data[i/out*rank+r]) * float64(b.Data[r*out+i%out])
				}
				t.Data[i] += float32(scale * sum)
			}
		}
		l = append(l, t)
	}
	return l
}

// orderKey marks our files in which vectors have the order of PyTorch's. Those of Gaiden before
// 0.1.0 had it in part, and no mark.
const orderKey = "order"

// writeTensors writes a safetensors file.
func writeTensors(path string, all []result.Tensor, about map[string]string) error {
	h := &safetensors.Header{Metadata: map[string]string{"format": "pt", orderKey: "pt"}} // Hugging Face's libraries want to know the format
	maps.Copy(h.Metadata, about)
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

// wanted is a variable that a file has.
type wanted struct {
	rule
	array, second int // numbers of tensors; second, of which the variable is the sum, may be -1
}

// read is the variable.
func (w wanted) read(c *safetensors.Checkpoint) (result.Tensor, error) {
	t := result.Tensor{Name: w.name, Dims: c.Tensors[w.array].Shape}
	var err error
	if t.Data, err = c.Floats(w.array); err != nil {
		return t, err
	}
	if w.second >= 0 {
		more, err := c.Floats(w.second)
		if err != nil {
			return t, err
		}
		for i := range more {
			t.Data[i] += more[i]
		}
	}
	return w.in(t), nil
}

// match finds the tensors of a file that are variables, or says all that is wrong.
func (n Net) match(path string, there []safetensors.Tensor, rules rules) (all []wanted, table weights.Table, err error) {
	at := map[string]int{}
	for i, t := range there {
		at[t.Name] = i
	}
	wrong := &result.ArchitectureError{Net: n.Name, Model: n.Model.Name, Weights: true, File: path}
	table.File = path
	used := map[string]bool{}
	for _, s := range n.Variables {
		r := rules.of(s.Name)
		if _, is := at[s.Name]; is && !r.mapped { // it was written with our names
			r = rule{own: s.Name, name: s.Name}
		}
		i, is := at[r.name]
		dims, err := r.dims(s.Dims)
		if err != nil {
			return nil, table, fmt.Errorf("fit: %s: load %s: %w", n.Name, path, err)
		}
		row := weights.Row{Variable: s.Name, Array: r.name, Shape: s.Dims}
		switch {
		case !rules.Wants(s.Name):
			used[r.name] = true
			row.Why = "not in Only"
		case !is && len(rules.Only) == 0 && (strings.HasSuffix(s.Name, "/lora_a") || strings.HasSuffix(s.Name, "/lora_b")):
			row.Why = "the file has no LoRA"
		case !is:
			wrong.Missing = append(wrong.Missing, fmt.Sprintf("%s %v", r.name, dims))
			row.Why = "the file has no " + r.name
		case !r.is(there[i].Shape, dims):
			used[r.name] = true
			row.Why = fmt.Sprintf("%s is %v, want %v", r.name, there[i].Shape, dims)
			if r.to > 0 {
				row.Why = fmt.Sprintf("%s is %v, want %v at %d to %d of axis %d", r.name, there[i].Shape, dims, r.from, r.to, r.axis)
			}
			wrong.Differences = append(wrong.Differences, row.Why)
		case !there[i].IsNumber():
			used[r.name] = true
			row.Why = fmt.Sprintf("%s has elements of %s, want one of %s", r.name, there[i].DType, safetensors.NumberTypes())
			wrong.Differences = append(wrong.Differences, row.Why)
		}
		if row.Why != "" {
			table.Left = append(table.Left, row)
			continue
		}
		w := wanted{r, i, -1}
		if k, is := at[r.other()]; is && r.second {
			w.second, used[there[k].Name] = k, true
			if !r.is(there[k].Shape, dims) {
				wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s is %v, want %v", there[k].Name, there[k].Shape, dims))
			}
		}
		used[r.name] = true
		row.Type = there[i].DType
		all, table.Loaded = append(all, w), append(table.Loaded, row)
	}
	for _, t := range there {
		if used[t.Name] || rules.counts(t) {
			continue
		}
		row := weights.Row{Array: t.Name, Type: t.DType, Shape: t.Shape, Why: "no variable has this name"}
		switch {
		case rules.Ignores(t.Name):
			row.Why = "it is in Ignore"
		case rules.among(t.Name):
			wrong.Surplus = append(wrong.Surplus, fmt.Sprintf("%s %v", t.Name, t.Shape))
		}
		table.Unused = append(table.Unused, row)
	}
	if (!rules.Partial || len(all) == 0) && len(wrong.Differences)+len(wrong.Missing)+len(wrong.Surplus) > 0 {
		return nil, table, wrong
	}
	return all, table, nil
}

// among says whether the name of an array is that of a layer that is loaded.
func (all rules) among(array string) bool {
	return len(all.Only) == 0 || slices.ContainsFunc(all.Only, func(pattern string) bool {
		layer, _, _ := strings.Cut(strings.TrimSuffix(pattern, "/*"), "*")
		return strings.HasPrefix(array, strings.ReplaceAll(layer, "/", ".")+".") || strings.HasPrefix(array, layer+"/")
	})
}

// counts says whether a tensor is what PyTorch's batch norm counts and nothing here
// needs: an integer.
func (all rules) counts(t safetensors.Tensor) bool {
	base, is := strings.CutSuffix(t.Name, ".num_batches_tracked")
	if !is || t.DType[0] != 'I' || len(t.Shape) > 0 {
		return false
	}
	for _, r := range all.kept {
		if r.name == base+".running_mean" {
			return true
		}
	}
	return false
}
