package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Attention is multi-head self-attention (Vaswani et al., 2017): each time step of a
// sequence takes from all others, or with Causal from those before it.
type Attention struct {
	Name     string
	Heads    int
	KVHeads  int     // heads of keys and values, each for Heads/KVHeads heads of queries (Ainslie et al., 2023); default: Heads
	HeadSize int     // default: the width of x, divided by Heads
	Causal   bool    // a time step does not see those after it
	Window   int     // a time step sees that many time steps at most, the last of which is itself; needs Causal; 0: all
	RoPE     float64 // base of rotary position embeddings (Su et al., 2021), such as 10000; 0: none
	// Frequencies are the angles by which RoPE turns the pairs of a head at each time step, in
	// place of those of a base. Fewer than HeadSize/2 turn the first part of a head only.
	Frequencies []float64
	ALiBi       bool    // scores get smaller with the distance (Press et al., 2022); needs Causal
	Dropout     float64 // of the attention weights
	Scale       float64 // of the dot products of queries and keys; default: 1/√HeadSize
	SoftCap     float64 // as in [Attending]
	QKNorm      Layer   // of each head's queries and keys before RoPE, such as RMSNorm{} (Henry et al., 2020); nil: none
	NoBias      bool
	// NoOutputBias leaves out the bias of the output only, as Qwen 2 does.
	NoOutputBias bool
	Init         Init // of the weights; default: Glorot
}

func (l Attention) Title() (name, kind string) { return l.Name, "MultiHeadAttention" }

func (l Attention) check() error {
	err := cmp.Or(least("Heads", l.Heads, 1), usual("KVHeads", l.KVHeads, "Heads"), usual("HeadSize", l.HeadSize, "the width, divided by Heads"),
		usual("Window", l.Window, "all time steps"), share("Dropout", l.Dropout))
	switch {
	case err != nil:
		return err
	case l.KVHeads > 0 && l.Heads%l.KVHeads != 0:
		return fmt.Errorf("KVHeads is %d: want a divisor of %d, its Heads", l.KVHeads, l.Heads)
	case !l.Causal && (l.Window > 0 || l.ALiBi):
		return fmt.Errorf("Window or ALiBi is set and Causal is not: want Causal with them")
	case !(l.RoPE >= 0) || math.IsInf(l.RoPE, 0):
		return fmt.Errorf("RoPE is %g: want a base such as 10000, or 0 for none", l.RoPE)
	case l.RoPE > 0 && l.Frequencies != nil:
		return fmt.Errorf("RoPE and Frequencies are set: want one of them")
	case slices.ContainsFunc(l.Frequencies, func(f float64) bool { return !(f >= 0) || math.IsInf(f, 0) }):
		return fmt.Errorf("Frequencies are %g: want numbers of 0 or more", l.Frequencies)
	case l.NoBias && l.NoOutputBias:
		return unused(true, "NoOutputBias", "NoBias")
	case l.QKNorm != nil:
		if err := check(l.QKNorm); err != nil {
			return fmt.Errorf("QKNorm: %w", err)
		}
	}
	return Attending{Scale: l.Scale, SoftCap: l.SoftCap}.check()
}

// Apply takes x shaped [n length width] and returns the same shape.
func (l Attention) Apply(scope *model.Scope, x *Node) *Node {
	return l.Attend(scope, x, x, Attending{})
}

// Attend is Apply with queries from x [n length width], and keys and values from context
// [n keys width], which is x in self-attention. a says what else a query does not see; the
// layer's own settings are added to it. Its weights are in scope, whatever its Name is: in a
// Function want scope.In("cross").
func (l Attention) Attend(scope *model.Scope, x, context *Node, a Attending) *Node {
	must(l)
	sequences(x)
	sequences(context)
	width := x.Shape().Dimensions[2]
	size, groups := l.HeadSize, l.KVHeads
	groups = cmp.Or(groups, l.Heads)
	if size == 0 {
		if width%l.Heads != 0 {
			panic(fmt.Errorf("got a width of %d: want a multiple of %d, its Heads, or a HeadSize", width, l.Heads))
		}
		size = width / l.Heads
	}
	if l.RoPE > 0 && size%2 != 0 {
		panic(fmt.Errorf("heads have a size of %d: want an even one for RoPE", size))
	}
	if 2*len(l.Frequencies) > size {
		panic(fmt.Errorf("got %d Frequencies: want at most %d, for heads of a size of %d", len(l.Frequencies), size/2, size))
	}
	heads := func(name string, count int) scoped {
		return scoped{Dense{Units: count * size, NoBias: l.NoBias, Init: l.Init}, scope.In("%s", name)}
	}
	query, key, value := heads("query", l.Heads), heads("key", groups), heads("value", groups)
	var all []*Node
	if context == x {
		all = denses(x, query, key, value)
	} else {
		all = append(denses(x, query), denses(context, key, value)...)
	}
	for i, y := range all {
		d := y.Shape().Dimensions
		all[i] = Reshape(y, d[0], d[1], d[2]/size, size)
	}
	q, k, v := all[0], all[1], all[2]
	if l.QKNorm != nil {
		q, k = l.QKNorm.Apply(scope.In("query_norm"), q), l.QKNorm.Apply(scope.In("key_norm"), k)
	}
	cache := cacheOf(x.Graph())
	if cache != nil && (context != x || !l.Causal) {
		panic(errors.New("attention has a cache where it is causal self-attention only"))
	}
	if f := l.frequencies(size); len(f) > 0 {
		var at *Node
		if cache != nil {
			at = cache.positions(x.Shape().Dimensions[1])
		}
		q, k = rotated(q, f, at), rotated(k, f, at)
	}
	if mask := MaskOf(context); mask != nil && a.KeySegments == nil {
		a.QuerySegments, a.KeySegments = Ones(x.Graph(), shapes.Make(dtypes.Int32, x.Shape().Dimensions[:2]...)), ConvertDType(mask, dtypes.Int32)
	}
	a.Scale, a.SoftCap = l.Scale, l.SoftCap
	a.Causal, a.Window, a.ALiBi, a.Dropout, a.Scope = l.Causal, l.Window, l.ALiBi, l.Dropout, scope
	watchedOf(x.Graph()).put(scope.Scope()+"/weights", func() *Node {
		w := a.weights(q, k, v)
		d := w.Shape().Dimensions
		return Reshape(w, d[0], l.Heads, d[3], d[4])
	})
	var y *Node
	if cache != nil {
		y = cache.attend(scope, q, k, v, a)
	} else {
		y = loweringOf(x.Graph()).Attend(q, k, v, a)
	}
	d := y.Shape().Dimensions
	y = Reshape(y, d[0], d[1], l.Heads*size)
	return Dense{Units: width, NoBias: l.NoBias || l.NoOutputBias, Init: l.Init}.Apply(scope.In("output"), y)
}

// frequencies are RoPE's of heads of a size.
func (l Attention) frequencies(size int) []float64 {
	if l.RoPE == 0 {
		return l.Frequencies
	}
	all := make([]float64, size/2)
	for i := range all {
		all[i] = math.Pow(l.RoPE, -float64(i)/float64(len(all)))
	}
	return all
}

// rotated turns pairs of numbers of each head by angles that grow with the time step, the
// first half of the head with the second, as Llama does: x is [n length heads size]. With fewer
// frequencies than pairs the end of each head stays as it is. at is the time steps' positions,
// int32 [n length]; nil: from 0 on.
func rotated(x *Node, frequencies []float64, at *Node) *Node {
	g, d := x.Graph(), x.Shape().Dimensions
	length, half := d[1], len(frequencies)
	rate := Reshape(ConvertDType(Const(g, frequencies), dtypes.Float32), 1, half)
	var angle *Node
	if at == nil {
		angle = Reshape(Mul(Iota(g, shapes.Make(dtypes.Float32, length, half), 0), rate), 1, length, 1, half)
	} else {
		angle = Mul(Reshape(ConvertDType(at, dtypes.Float32), d[0], length, 1, 1), Reshape(rate, 1, 1, 1, half))
	}
	cos, sin := Cos(angle), Sin(angle)
	part := func(from, to int) *Node { return float(SliceAxis(x, 3, AxisRange(from, to))) }
	a, b := part(0, half), part(half, 2*half)
	parts := []*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}
	if 2*half < d[3] {
		parts = append(parts, part(2*half, d[3]))
	}
	return ConvertDType(Concatenate(parts, -1), x.DType())
}
