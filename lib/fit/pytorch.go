package fit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gaiden/lib/models"
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
	// image is [height width channels] of what was flattened to be the first
	// axis: theirs is [channels height width]. nil when nothing was.
	image []int
	// axis, from and to are the part of theirs that is ours; to is 0 where that is all.
	axis, from, to int
	mapped         bool // by a weights.Map
}

// rules are those of the net's layers, and of a map.
func (n *Net) rules(how ...weights.Map) (rules, error) {
	all := rules{kept: map[string]rule{}}
	parts := n.model.Parts()
	for _, p := range parts {
		if err := all.list(p.Name+"/", p); err != nil {
			return all, err
		}
	}
	if len(parts) == 0 {
		if err := all.list("", n.model); err != nil {
			return all, err
		}
	}
	if len(how) > 0 {
		var names []string
		for _, v := range n.floats() {
			names = append(names, v.name)
		}
		all.Map = how[0]
		err := how[0].Check(names)
		if len(how) > 1 {
			err = fmt.Errorf("got %d maps: want one", len(how))
		}
		if err != nil {
			return all, fmt.Errorf("fit: %s: weights.Map: %w", n.name, err)
		}
	}
	return all, nil
}

// list adds the rules of a net's layers, in front of whose names stands before.
func (all rules) list(before string, net models.Net) error {
	s, err := models.Summarize(&writer{}, net)
	if err != nil {
		return err
	}
	shape, image := net.Input, []int(nil)
	for i, l := range net.Listed().Layers {
		switch name := before + s.Rows[i].Name; l.(type) {
		case models.Flatten:
			if len(shape) == 3 {
				image = shape
			}
		case models.Dropout, models.Activation:
		case models.BatchNorm: // keeps the order
			all.add(l, name, image)
		default:
			all.add(l, name, image)
			image = nil
		}
		shape = s.Rows[i].Output
	}
	return nil
}

// add adds the rules of a layer called name.
func (all rules) add(l models.Layer, name string, image []int) {
	put := func(own, theirs string, order []int, image []int) {
		own = name + "/" + own
		all.kept[own] = rule{own: own, name: strings.ReplaceAll(name, "/", ".") + "." + theirs, order: order, image: image}
	}
	switch l := l.(type) {
	case models.Conv2D:
		put("weights", "weight", []int{3, 2, 0, 1}, nil)
		put("biases", "bias", nil, nil)
	case models.Dense:
		put("weights", "weight", []int{1, 0}, image)
		put("biases", "bias", nil, nil)
	case models.BatchNorm:
		put("scale", "weight", nil, image)
		put("offset", "bias", nil, image)
		put("mean", "running_mean", nil, image)
		put("variance", "running_var", nil, image)
	case models.LSTM:
		put("weights", "weight_ih_l0", []int{1, 0}, nil)
		put("recurrent", "weight_hh_l0", []int{1, 0}, nil)
		put("biases", "bias_ih_l0", nil, nil)
	case models.Tied:
		put("biases", "bias", nil, nil)
	case models.Conv1D:
		put("weights", "weight", []int{2, 1, 0}, nil)
		put("biases", "bias", nil, nil)
	case models.DepthwiseConv2D: // a Conv2d with a group for each channel
		put("weights", "weight", []int{2, -1, 0, 1}, nil)
		put("biases", "bias", nil, nil)
	case models.ConvTranspose2D:
		put("weights", "weight", []int{0, 3, 1, 2}, nil)
		put("biases", "bias", nil, nil)
	case models.Conv3D:
		put("weights", "weight", []int{4, 3, 0, 1, 2}, nil)
		put("biases", "bias", nil, nil)
	case models.LayerNorm, models.RMSNorm, models.GroupNorm, models.InstanceNorm:
		put("scale", "weight", nil, nil)
		put("offset", "bias", nil, nil)
	case models.Embedding, models.Positions, models.PReLU:
		put("weights", "weight", nil, nil)
	case models.GRU, models.RNN:
		put("weights", "weight_ih_l0", []int{1, 0}, nil)
		put("biases", "bias_ih_l0", nil, nil)
		put("recurrent/weights", "weight_hh_l0", []int{1, 0}, nil)
		put("recurrent/biases", "bias_hh_l0", nil, nil)
	case models.Attention:
		all.dense(name, "query", "key", "value", "output")
		all.add(models.RMSNorm{}, name+"/query_norm", nil)
		all.add(models.RMSNorm{}, name+"/key_norm", nil)
	case models.FeedForward:
		all.dense(name, "up", "gate", "down")
	case models.TransformerBlock:
		all.add(models.LayerNorm{}, name+"/norm1", nil)
		all.add(models.LayerNorm{}, name+"/norm2", nil)
		all.add(models.Attention{}, name+"/attention", nil)
		all.add(models.FeedForward{}, name+"/feedforward", nil)
	case models.Bidirectional:
		all.add(l.Layer, name+"/forward", nil)
		all.add(l.Layer, name+"/backward", nil)
	case models.Repeat:
		for i := range l.Times {
			all.add(l.Layer, name+"/"+itoa(i), nil)
		}
	case models.Sequential:
		all.each(name, l.Layers)
	case models.Concat:
		all.each(name, l.Branches...)
	case models.Residual:
		all.each(name, l.Main, l.Skip)
	}
}

// dense adds the rules of dense layers that are parts of one.
func (all rules) dense(name string, parts ...string) {
	for _, p := range parts {
		all.add(models.Dense{}, name+"/"+p, nil)
	}
}

// each adds the rules of layers that one holds.
func (all rules) each(name string, branches ...[]models.Layer) {
	for _, layers := range branches {
		for _, l := range layers {
			inner, _ := l.Title()
			all.add(l, strings.TrimSuffix(name+"/"+inner, "/"), nil)
		}
	}
}

// joins says whether a tensor of PyTorch's is one of two biases where we have one.
func (all rules) joins(name string) bool {
	for _, r := range all.kept {
		if r.name == name {
			return false
		}
	}
	return true
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
	r = rule{own: variable, name: name.Array, order: r.order, axis: name.Axis, from: name.From, to: name.To, mapped: true}
	if name.Order != nil {
		r.order = name.Order
	}
	return r
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
func (r rule) out(t Tensor) Tensor {
	own := t.Dims
	if p := r.image; p != nil {
		t = permute(Tensor{Name: t.Name, Dims: []int{p[0], p[1], p[2], len(t.Data) / (p[0] * p[1] * p[2])}, Data: t.Data}, []int{2, 0, 1, 3})
		t.Dims = own
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
func (all rules) out(variables []Tensor) (l []Tensor, err error) {
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
		if name, is := strings.CutSuffix(t.Name, "bias_ih_l0"); is && all.joins(name+"bias_hh_l0") {
			l = append(l, Tensor{Name: name + "bias_hh_l0", Dims: t.Dims, Data: make([]float32, len(t.Data))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		of := parts[name]
		slices.SortFunc(of, func(a, b wanted) int { return a.from - b.from })
		whole, end := Tensor{}, 0
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
func joined(a, b Tensor, axis int) Tensor {
	if a.Data == nil {
		return b
	}
	c := Tensor{Name: b.Name, Dims: slices.Clone(a.Dims)}
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
func (r rule) in(t Tensor) Tensor {
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
	if p := r.image; p != nil && len(t.Dims) > 0 && t.Dims[0] == p[0]*p[1]*p[2] {
		dims := t.Dims
		t = permute(Tensor{Name: t.Name, Dims: []int{p[2], p[0], p[1], len(t.Data) / dims[0]}, Data: t.Data}, []int{1, 2, 0, 3})
		t.Dims = dims
	}
	t.Name = r.own
	return t
}

// partOf is what stands from from to to of an axis.
func partOf(t Tensor, axis, from, to int) Tensor {
	of, row := t.Dims[axis], 1
	for _, d := range t.Dims[axis+1:] {
		row *= d
	}
	p := Tensor{Name: t.Name, Dims: slices.Clone(t.Dims)}
	p.Dims[axis] = to - from
	for i := 0; i < len(t.Data); i += of * row {
		p.Data = append(p.Data, t.Data[i+from*row:i+to*row]...)
	}
	return p
}

// permute gives a tensor's axes another order: axis i of the result is axis
// order[i] of t. nil, or an order of another length, changes nothing.
func permute(t Tensor, order []int) Tensor {
	if len(order) != len(t.Dims) || len(order) == 0 {
		return t
	}
	stride := make([]int, len(order))
	step := 1
	for i := len(t.Dims) - 1; i >= 0; i-- {
		stride[i] = step
		step *= t.Dims[i]
	}
	out := Tensor{Name: t.Name, Dims: make([]int, len(order)), Data: make([]float32, 0, len(t.Data))}
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
