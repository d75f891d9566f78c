package fit

import (
	"strings"

	"gaiden/lib/models"
)

// rules say how PyTorch keeps variables, by our names.
type rules map[string]rule

// rule is one variable's.
type rule struct {
	own, name string
	// order is that of our axes in theirs; nil is the same.
	order []int
	// image is [height width channels] of what was flattened to be the first
	// axis: theirs is [channels height width]. nil when nothing was.
	image []int
}

// rules are those of the net's layers.
func (n *Net) rules() (rules, error) {
	s, err := n.Summary()
	if err != nil {
		return nil, err
	}
	all := rules{}
	shape, image := n.model.Input, []int(nil)
	for i, l := range n.model.Layers {
		switch l.(type) {
		case models.Flatten:
			if len(shape) == 3 {
				image = shape
			}
		case models.Dropout, models.Activation:
		case models.BatchNorm: // keeps the order
			all.add(l, s.Rows[i].Name, image)
		default:
			all.add(l, s.Rows[i].Name, image)
			image = nil
		}
		shape = s.Rows[i].Output
	}
	return all, nil
}

// add adds the rules of a layer called name.
func (all rules) add(l models.Layer, name string, image []int) {
	put := func(own, theirs string, order []int, image []int) {
		own = name + "/" + own
		all[own] = rule{own, strings.ReplaceAll(name, "/", ".") + "." + theirs, order, image}
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
	case models.Conv1D:
		put("weights", "weight", []int{2, 1, 0}, nil)
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
			all.add(l, name+"/"+inner, nil)
		}
	}
}

// joins says whether a tensor of PyTorch's is one of two biases where we have one.
func (all rules) joins(name string) bool {
	for _, r := range all {
		if r.name == name {
			return false
		}
	}
	return true
}

// out is a variable of ours as PyTorch has it.
func (r rule) out(t Tensor) Tensor {
	dims := t.Dims
	if p := r.image; p != nil {
		t = permute(Tensor{t.Name, []int{p[0], p[1], p[2], len(t.Data) / (p[0] * p[1] * p[2])}, t.Data}, []int{2, 0, 1, 3})
		t.Dims = dims
	}
	t = permute(t, r.order)
	t.Name = r.name
	return t
}

// dims are a variable's dimensions as PyTorch has them.
func (r rule) dims(own []int) []int {
	if len(own) != len(r.order) || len(own) == 0 {
		return own
	}
	dims := make([]int, len(own))
	for i, k := range r.order {
		dims[i] = own[k]
	}
	return dims
}

// out are variables of ours as PyTorch has them. Those without a rule stay as they
// are. nn.LSTM adds two biases where we have one, and refuses a file without the
// second: it gets zeros.
func (all rules) out(variables []Tensor) []Tensor {
	var l []Tensor
	for _, t := range variables {
		r, is := all[t.Name]
		if !is {
			l = append(l, t)
			continue
		}
		t = r.out(t)
		l = append(l, t)
		if name, is := strings.CutSuffix(t.Name, "bias_ih_l0"); is && all.joins(name+"bias_hh_l0") {
			l = append(l, Tensor{name + "bias_hh_l0", t.Dims, make([]float32, len(t.Data))})
		}
	}
	return l
}

// in are PyTorch's tensors as variables of ours. Those without a rule stay as
// they are.
func (all rules) in(tensors []Tensor) []Tensor {
	byName := map[string]rule{}
	for _, r := range all {
		byName[r.name] = r
	}
	there := map[string]Tensor{}
	for _, t := range tensors {
		there[t.Name] = t
	}
	var l []Tensor
	for _, t := range tensors {
		first, second := strings.CutSuffix(t.Name, "bias_hh_l0")
		if len(there[first+"bias_ih_l0"].Data) == len(t.Data) && second && all.joins(t.Name) || strings.HasSuffix(t.Name, ".num_batches_tracked") {
			continue // part of the first biases; a counter we do not need
		}
		r, is := byName[t.Name]
		if !is {
			l = append(l, t)
			continue
		}
		if name, is := strings.CutSuffix(t.Name, "bias_ih_l0"); is && all.joins(name+"bias_hh_l0") {
			if more := there[name+"bias_hh_l0"].Data; len(more) == len(t.Data) {
				sum := make([]float32, len(more))
				for i := range sum {
					sum[i] = t.Data[i] + more[i]
				}
				t.Data = sum
			}
		}
		l = append(l, r.in(t))
	}
	return l
}

// in is out backwards.
func (r rule) in(t Tensor) Tensor {
	if len(t.Dims) == len(r.order) {
		back := make([]int, len(r.order))
		for i, k := range r.order {
			back[k] = i
		}
		t = permute(t, back)
	}
	if p := r.image; p != nil && len(t.Dims) > 0 && t.Dims[0] == p[0]*p[1]*p[2] {
		dims := t.Dims
		t = permute(Tensor{t.Name, []int{p[2], p[0], p[1], len(t.Data) / dims[0]}, t.Data}, []int{1, 2, 0, 3})
		t.Dims = dims
	}
	t.Name = r.own
	return t
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
