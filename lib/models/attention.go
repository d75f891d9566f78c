package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"

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
	ALiBi    bool    // scores get smaller with the distance (Press et al., 2022); needs Causal
	Dropout  float64 // of the attention weights
	NoBias   bool
	Init     Init // of the weights; default: Glorot
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
	}
	return nil
}

// Apply takes x shaped [n length width] and returns the same shape.
func (l Attention) Apply(scope *model.Scope, x *Node) *Node {
	return l.Attend(scope, x, x, Attending{})
}

// Attend is Apply with queries from x [n length width], and keys and values from context
// [n keys width], which is x in self-attention. a says what else a query does not see; the
// layer's own settings are added to it.
func (l Attention) Attend(scope *model.Scope, x, context *Node, a Attending) *Node {
	must(l)
	sequences(x)
	sequences(context)
	width := x.Shape().Dimensions[2]
	size, groups := l.HeadSize, l.KVHeads
	if groups == 0 {
		groups = l.Heads
	}
	if size == 0 {
		if width%l.Heads != 0 {
			panic(fmt.Errorf("got a width of %d: want a multiple of %d, its Heads, or a HeadSize", width, l.Heads))
		}
		size = width / l.Heads
	}
	if l.RoPE > 0 && size%2 != 0 {
		panic(fmt.Errorf("heads have a size of %d: want an even one for RoPE", size))
	}
	heads := func(name string, x *Node, count int) *Node { // [n length count size]
		y := Dense{Units: count * size, NoBias: l.NoBias, Init: l.Init}.Apply(scope.In("%s", name), x)
		d := y.Shape().Dimensions
		return Reshape(y, d[0], d[1], count, size)
	}
	q, k, v := heads("query", x, l.Heads), heads("key", context, groups), heads("value", context, groups)
	cache := cacheOf(x.Graph())
	if cache != nil && (context != x || !l.Causal) {
		panic(errors.New("attention has a cache where it is causal self-attention only"))
	}
	if l.RoPE > 0 {
		var at *Node
		if cache != nil {
			at = cache.positions(x.Shape().Dimensions[1])
		}
		q, k = rotated(q, l.RoPE, at), rotated(k, l.RoPE, at)
	}
	a.Causal, a.Window, a.ALiBi, a.Dropout, a.Scope = l.Causal, l.Window, l.ALiBi, l.Dropout, scope
	var y *Node
	if cache != nil {
		y = cache.attend(scope, q, k, v, a)
	} else {
		y = loweringOf(x.Graph()).Attend(q, k, v, a)
	}
	d := y.Shape().Dimensions
	y = Reshape(y, d[0], d[1], l.Heads*size)
	return Dense{Units: width, NoBias: l.NoBias, Init: l.Init}.Apply(scope.In("output"), y)
}

// rotated turns pairs of numbers of each head by an angle that grows with the time step, the
// first half of the head with the second, as Llama does: x is [n length heads size]. at is the
// time steps' positions, int32 [n length]; nil: from 0 on.
func rotated(x *Node, base float64, at *Node) *Node {
	g, d := x.Graph(), x.Shape().Dimensions
	length, half := d[1], d[3]/2
	angles := make([]float64, half)
	for i := range angles {
		angles[i] = math.Pow(base, -float64(i)/float64(half))
	}
	rate := Reshape(ConvertDType(Const(g, angles), dtypes.Float32), 1, half)
	var angle *Node
	if at == nil {
		angle = Reshape(Mul(Iota(g, shapes.Make(dtypes.Float32, length, half), 0), rate), 1, length, 1, half)
	} else {
		angle = Mul(Reshape(ConvertDType(at, dtypes.Float32), d[0], length, 1, 1), Reshape(rate, 1, 1, 1, half))
	}
	cos, sin := Cos(angle), Sin(angle)
	part := func(from int) *Node { return float(SliceAxis(x, 3, AxisRange(from, from+half))) }
	a, b := part(0), part(half)
	y := Concatenate([]*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}, -1)
	return ConvertDType(y, x.DType())
}
