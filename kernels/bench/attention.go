package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// attention is a case of cuDNN's attention.
type attention struct {
	name                string
	n, queries, keys    int
	heads, groups, size int
	causal              bool
	window              int
	lengths             bool // examples have fewer keys
	dtype               dtypes.DType
}

var attentions = []attention{
	{"causal", 2, 1024, 1024, 12, 12, 64, true, 0, false, dtypes.BFloat16},
	{"float16", 2, 512, 512, 4, 4, 64, true, 0, false, dtypes.Float16},
	{"all", 2, 512, 384, 4, 4, 64, false, 0, false, dtypes.BFloat16},
	{"grouped", 2, 512, 512, 8, 2, 128, true, 0, false, dtypes.BFloat16},
	{"one key head", 1, 256, 256, 8, 1, 64, true, 0, false, dtypes.BFloat16},
	{"window", 2, 512, 512, 4, 4, 64, true, 100, false, dtypes.BFloat16},
	{"odd", 3, 129, 129, 3, 3, 40, true, 0, false, dtypes.BFloat16},
	{"odd keys", 3, 131, 257, 3, 3, 72, false, 0, false, dtypes.BFloat16},
	{"lengths", 4, 200, 200, 4, 4, 64, false, 0, true, dtypes.BFloat16},
	{"causal lengths", 4, 256, 256, 4, 4, 64, true, 0, true, dtypes.BFloat16},
	{"wide heads", 1, 256, 256, 2, 2, 256, true, 0, false, dtypes.BFloat16},
	{"short", 64, 128, 128, 6, 6, 64, true, 0, false, dtypes.BFloat16},
	{"long", 1, 4096, 4096, 2, 2, 64, true, 0, false, dtypes.BFloat16},
}

// compareAttention records how far the result of cuDNN's attention and its gradients are from those of
// the plain form in float32.
func (b *bench) compareAttention(s *session.Session, c attention) error {
	target := lower.TargetOf(s.Welcome())
	q, kv := shapes.Make(dtypes.Float32, c.n, c.queries, c.heads, c.size), shapes.Make(dtypes.Float32, c.n, c.keys, c.groups, c.size)
	form := tiling.Form{Inputs: []tiling.Input{{Shape: q}, {Shape: kv}, {Shape: kv}, {Shape: q}}}
	in, err := form.Put(s)
	if err != nil {
		return err
	}
	p, err := tiling.Write("attention "+c.name, target, hlo.HighestPrecision, form.Shapes(), func(builder *hlo.Builder, in []*Node) []*Node {
		a := models.Attending{Causal: c.causal, Window: c.window}
		if c.lengths {
			a.Lengths = AddScalar(Iota(in[0].Graph(), shapes.Make(dtypes.Int32, c.n), 0), float64(c.keys/2))
		}
		attend := func(l models.Lowering, in []*Node) []*Node {
			y := l.Attend(in[0], in[1], in[2], a)
			return append([]*Node{y}, gradient.Final(ReduceAllSum(Mul(ConvertDType(y, dtypes.Float32), ConvertDType(in[3], dtypes.Float32))), in[:3]...)...)
		}
		in, wide := slices.Clone(in), make([]*Node, len(in))
		for i := range in {
			in[i] = ConvertDType(in[i], c.dtype)
			wide[i] = ConvertDType(in[i], dtypes.Float32)
		}
		want := attend(xla.Lowering{Target: target, Options: lower.Options{Attention: lower.AttentionChoice{Form: lower.PlainAttention}}}, wide)
		got := attend(xla.Lowering{Target: target, Options: lower.Options{Attention: lower.AttentionChoice{Form: lower.CuDNNAttention}}, Calls: fused.Calls{Ops: fused.Ops{Builder: builder}}}, in)
		var rows []*Node
		for i := range want {
			off := ConvertDType(Sub(ConvertDType(got[i], dtypes.Float32), want[i]), dtypes.Float64)
			rows = append(rows, Stack([]*Node{ReduceAllSum(Square(off)), ReduceAllSum(Square(ConvertDType(want[i], dtypes.Float64)))}, 0))
		}
		return []*Node{Stack(rows, 0)}
	})
	if err != nil {
		return err
	}
	if !bytes.Contains(p.Text(nil), []byte("fmhaSoftmaxBackward")) {
		return fmt.Errorf("cuDNN does not have it")
	}
	x, err := s.Compile(p, session.Options{Origin: "bench"})
	if err != nil {
		return err
	}
	out, err := x.Run(session.Call{Inputs: in})
	if err != nil {
		return err
	}
	sums := make([]float64, 8)
	if err := out[0].Values(sums); err != nil {
		return err
	}
	d := tiling.Distance{Mark: tiling.Mark(dtypes.BFloat16)}
	for i := 0; i < len(sums); i += 2 {
		d.Outputs = append(d.Outputs, tiling.Over(sums[i], sums[i+1]))
	}
	b.addSamples("attention "+c.name, "cuDNN", "relative error", d.Outputs)
	if d.Wrong() {
		return fmt.Errorf("got %s, want %.0e or less", d, d.Mark)
	}
	return nil
}
