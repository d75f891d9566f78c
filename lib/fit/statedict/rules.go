package statedict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gaiden/lib/fit/result"
	"gaiden/lib/weights"
)

// rules say how a file keeps variables.
type rules struct {
	weights.Map
	kept map[string]rule // by our names: as PyTorch does
}

// rule is one variable's.
type rule struct {
	own, name string
	// order is that of our axes in theirs, -1 for an axis of length 1 that we have not; nil is
	// the same.
	order []int
	// features are those of our axes that stand in another order in theirs; nil: the same.
	features []*features
	takes    *features // what its layer is given
	layer    string
	second   bool // PyTorch has a second array, a bias_hh to our bias_ih, and adds both
	// axis, from and to are the part of theirs that is ours; to is 0 where that is all.
	axis, from, to int
	mapped         bool // by a weights.Map
}

// rules are those of the net's layers, and of a map.
func (n Net) rules(how []weights.Map) (rules, error) {
	all := rules{kept: map[string]rule{}}
	if n.Model.Parts() == nil {
		all.list(n.Layers, flow{dims: n.Model.Input})
	} else {
		for _, part := range n.Layers {
			all.list(part.Inner, flow{dims: part.In})
		}
	}
	all.settle()
	if len(how) > 0 {
		var names []string
		for _, v := range n.Variables {
			names = append(names, v.Name)
		}
		all.Map = how[0]
		err := how[0].Check(names)
		if len(how) > 1 {
			err = fmt.Errorf("got %d maps: want one", len(how))
		}
		if err != nil {
			return all, fmt.Errorf("fit: %s: weights.Map: %w", n.Name, err)
		}
	}
	return all, nil
}

// other is the array that PyTorch adds to a rule's; "": there is none.
func (r rule) other() string {
	if before, end, is := strings.Cut(r.name, "bias_ih_"); is && r.second {
		return before + "bias_hh_" + end
	}
	return ""
}

// of is the rule of a variable; one that has none keeps its name and layout.
func (all rules) of(variable string) rule {
	r, is := all.kept[variable]
	if !is {
		r = rule{own: variable, name: variable}
	}
	name, is := all.Find(variable)
	if !is {
		return r
	}
	if name.Order != nil {
		r.order, r.features = name.Order, nil
	}
	r.name, r.axis, r.from, r.to, r.mapped = name.Array, name.Axis, name.From, name.To, true
	return r
}

// reordered says whether numbers stand in another order in the file.
func (r rule) reordered() bool {
	return slices.ContainsFunc(r.features, func(f *features) bool { return f.index() != nil })
}

// axes are those of order that are ours.
func (r rule) axes() []int {
	return slices.DeleteFunc(slices.Clone(r.order), func(k int) bool { return k < 0 })
}

// dims are a variable's dimensions in a file, of its part of an array where it is one.
func (r rule) dims(own []int) ([]int, error) {
	if r.order == nil || !r.mapped && len(own) != len(r.axes()) {
		return own, nil
	}
	sorted := r.axes()
	slices.Sort(sorted)
	for i, k := range sorted {
		if i != k {
			sorted = nil
		}
	}
	if len(sorted) != len(own) {
		return nil, fmt.Errorf("weights.Map: Order %v of %s %v: want each of its axes once, and -1 for others", r.order, r.own, own)
	}
	dims := make([]int, len(r.order))
	for i, k := range r.order {
		dims[i] = 1
		if k >= 0 {
			dims[i] = own[k]
		}
	}
	return dims, nil
}

// is says whether an array of a shape has a variable of these dimensions in the file.
func (r rule) is(shape, dims []int) bool {
	if r.to > 0 {
		if r.axis >= len(shape) || r.to > shape[r.axis] {
			return false
		}
		shape = slices.Clone(shape)
		shape[r.axis] = r.to - r.from
	}
	return slices.Equal(shape, dims)
}

// out is a variable of ours as the file has it.
func (r rule) out(t result.Tensor) result.Tensor {
	own := t.Dims
	for axis, f := range r.features {
		t = f.reorder(t, axis, false)
	}
	t = permute(t, r.axes())
	t.Name = r.name
	if dims, err := r.dims(own); err == nil {
		t.Dims = dims
	}
	return t
}

// out are variables of ours as the file has them. nn.LSTM adds two biases where we have one,
// and refuses a file without the second: it gets zeros. Parts of an array are joined.
func (all rules) out(variables []result.Tensor) (l []result.Tensor, err error) {
	parts, written := map[string][]wanted{}, map[string]bool{} // array is the number of the variable
	for i, t := range variables {
		if !all.Wants(t.Name) {
			continue
		}
		r := all.of(t.Name)
		if _, err := r.dims(t.Dims); err != nil {
			return nil, err
		}
		if r.to > 0 {
			parts[r.name] = append(parts[r.name], wanted{r, i, -1})
			continue
		}
		t = r.out(t)
		if written[t.Name] {
			return nil, fmt.Errorf("weights.Map: two variables are written as %s: want From and To where an array has parts", t.Name)
		}
		written[t.Name] = true
		l = append(l, t)
		if other := r.other(); other != "" {
			l = append(l, result.Tensor{Name: other, Dims: t.Dims, Data: make([]float32, len(t.Data))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		of := parts[name]
		slices.SortFunc(of, func(a, b wanted) int { return a.from - b.from })
		whole, end := result.Tensor{}, 0
		for _, p := range of {
			if p.from != end {
				return nil, fmt.Errorf("weights.Map: the net has no part of %s from %d on: want all parts of what is written", name, end)
			}
			whole, end = joined(whole, p.out(variables[p.array]), p.axis), p.to
		}
		l = append(l, whole)
	}
	return l, nil
}

// joined are two tensors one after the other on an axis; the first may be none.
func joined(a, b result.Tensor, axis int) result.Tensor {
	if a.Data == nil {
		return b
	}
	c := result.Tensor{Name: b.Name, Dims: slices.Clone(a.Dims)}
	c.Dims[axis] += b.Dims[axis]
	rowA, rowB := 1, 1
	for k := axis; k < len(a.Dims); k++ {
		rowA, rowB = rowA*a.Dims[k], rowB*b.Dims[k]
	}
	for i := range len(a.Data) / rowA {
		c.Data = append(append(c.Data, a.Data[i*rowA:(i+1)*rowA]...), b.Data[i*rowB:(i+1)*rowB]...)
	}
	return c
}

// in is out backwards.
func (r rule) in(t result.Tensor) result.Tensor {
	if r.to > 0 {
		t = partOf(t, r.axis, r.from, r.to)
	}
	if axes := r.axes(); len(t.Dims) == len(r.order) {
		back, dims := make([]int, len(axes)), []int{}
		for i, k := range axes {
			back[k] = i
		}
		for i, k := range r.order {
			if k >= 0 {
				dims = append(dims, t.Dims[i])
			}
		}
		t.Dims = dims
		t = permute(t, back)
	}
	for axis, f := range r.features {
		t = f.reorder(t, axis, true)
	}
	t.Name = r.own
	return t
}

// partOf is what stands from from to to of an axis.
func partOf(t result.Tensor, axis, from, to int) result.Tensor {
	of, row := t.Dims[axis], 1
	for _, d := range t.Dims[axis+1:] {
		row *= d
	}
	p := result.Tensor{Name: t.Name, Dims: slices.Clone(t.Dims)}
	p.Dims[axis] = to - from
	for i := 0; i < len(t.Data); i += of * row {
		p.Data = append(p.Data, t.Data[i+from*row:i+to*row]...)
	}
	return p
}

// permute gives a tensor's axes another order: axis i of the result is axis
// order[i] of t. nil, or an order of another length, changes nothing.
func permute(t result.Tensor, order []int) result.Tensor {
	if len(order) != len(t.Dims) || len(order) == 0 {
		return t
	}
	stride := make([]int, len(order))
	step := 1
	for i := len(t.Dims) - 1; i >= 0; i-- {
		stride[i] = step
		step *= t.Dims[i]
	}
	out := result.Tensor{Name: t.Name, Dims: make([]int, len(order)), Data: make([]float32, 0, len(t.Data))}
	for i, k := range order {
		out.Dims[i] = t.Dims[k]
	}
	var walk func(axis, at int)
	walk = func(axis, at int) {
		if axis == len(order) {
			out.Data = append(out.Data, t.Data[at])
			return
		}
		for i := range out.Dims[axis] {
			walk(axis+1, at+i*stride[order[axis]])
		}
	}
	walk(0, 0)
	return out
}
