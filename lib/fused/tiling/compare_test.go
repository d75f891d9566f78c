package tiling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/optim"
)

// spoiled is the form of an op whose kernel is the plain form, spoiled in an output, so that
// a CPU does it.
func spoiled(op kernels.Op, output int, spoil func(right, input *Node) *Node) Form {
	f, _ := FormOf(op)
	build := f.Build
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		out := build(fused.Ops{Compute: o.Compute}, in)
		if o.Choose == nil {
			return out
		}
		o.Choose(op)
		var input *Node
		if from, is := f.Chain[output]; is {
			input = in[from]
		}
		if spoil != nil {
			out[output] = spoil(out[output], input)
		}
		return out
	}
	return f
}

// first replaces the first n numbers of x.
func first(x *Node, n int, by *Node) *Node {
	flat := Reshape(x, x.Shape().Size())
	at := Iota(x.Graph(), flat.Shape(), 0)
	return Reshape(Where(LessThan(ConvertDType(at, dtypes.Float32), Const(x.Graph(), float32(n))), Reshape(by, x.Shape().Size()), flat), x.Shape().Dimensions...)
}

// TestCompare holds which numbers are taken for right: those of the plain form of every
// op, rounded as the op is, and no others.
func TestCompare(t *testing.T) {
	s := serve(t)
	whole := func(n int) func(x, _ *Node) *Node {
		return func(x, _ *Node) *Node { return first(x, n, Mod(AddScalar(x, 1), Scalar(x.Graph(), x.DType(), 4))) }
	}
	linear, update, pooled := ops[0], ops[2], ops[4]
	brain := kernels.Linear{Batch: 4, In: 20, Out: 7, X: dtypes.BFloat16, Compute: dtypes.BFloat16}
	type test struct {
		name   string
		op     kernels.Op
		output int
		spoil  func(right, input *Node) *Node
		wrong  bool
	}
	tests := []test{
		{"a result that is 0.4 % too large", linear, 0, func(x, _ *Node) *Node { return MulScalar(x, 1.004) }, true},
		{"which may be in bfloat16", brain, 0, func(x, _ *Node) *Node { return MulScalar(x, 1.004) }, false},
		{"4 % may not", brain, 0, func(x, _ *Node) *Node { return MulScalar(x, 1.04) }, true},
		{"one number of 28", linear, 0, func(x, _ *Node) *Node { return first(x, 1, AddScalar(x, 0.1)) }, true},
		{"no number at all", linear, 0, func(x, _ *Node) *Node { return first(x, 1, Log(MulScalar(OnesLike(x), -1))) }, true},
		{"weights that do not move", update, 0, func(_, w *Node) *Node { return w }, true},
		{"weights of which a row does not", update, 0, func(x, w *Node) *Node { return first(x, 7, w) }, true},
		{"weights that move 0.5 % too far", update, 0, func(x, w *Node) *Node { return Add(x, MulScalar(Sub(x, w), 0.005)) }, false},
		{"a second moment that does not move", update, 5, func(_, v *Node) *Node { return v }, true},
		{"another winner in three places", pooled, 0, whole(3), false},
		{"and in four", pooled, 0, whole(4), true},
		{"one winner for all", pooled, 0, func(x, _ *Node) *Node { return ZerosLike(x) }, true},
		{"the right winners, and wrong maxima", pooled, 1, func(x, _ *Node) *Node { return Neg(x) }, true},
	}
	for _, op := range append(slices.Clone(ops), unbiased...) {
		tests = append(tests, test{name: "as it should be", op: op})
	}
	for _, tt := range tests {
		f := spoiled(tt.op, tt.output, tt.spoil)
		in, err := f.Put(s)
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Compare(s, tt.op, in)
		if err != nil || d.Wrong() != tt.wrong {
			t.Errorf("%s: %s: got %s and %v, want wrong %t", tt.op.Key(), tt.name, d, err, tt.wrong)
		}
		if len(d.Changes) != len(f.Chain) {
			t.Errorf("%s: %s: got changes %v, want those of all of %v", tt.op.Key(), tt.name, d.Changes, f.Chain)
		}
		if again, err := in[0].Shape(); err != nil || !again.Equal(f.Inputs[0].Shape) {
			t.Errorf("%s: an input is gone: %v", tt.op.Key(), err)
		}
	}
}

// TestWrong holds what is no number of a distance, or too many.
func TestWrong(t *testing.T) {
	for _, tt := range []struct {
		d    Distance
		want bool
	}{
		{Distance{Outputs: []float64{0, 2e-3}, Mark: 2e-3}, false},
		{Distance{Outputs: []float64{0, 2.1e-3}, Mark: 2e-3}, true},
		{Distance{Outputs: []float64{math.NaN()}, Mark: 2e-3}, true},
		{Distance{Outputs: []float64{Over(math.NaN(), 1)}, Mark: 2e-3}, true},
		{Distance{Outputs: []float64{1e-9}, Changes: map[int]float64{0: 9e-3}, Mark: 2e-3}, false},
		{Distance{Outputs: []float64{1e-9}, Changes: map[int]float64{0: 2e-2}, Mark: 2e-3}, true},
	} {
		if got := tt.d.Wrong(); got != tt.want {
			t.Errorf("%+v: got wrong %t, want %t", tt.d, got, tt.want)
		}
	}
}

// unbiased are ops without biases, and the gradient that is no update.
var unbiased = []kernels.Op{
	kernels.Linear{Batch: 4, In: 20, Out: 7, NoBias: true},
	kernels.Head{Batch: 4, In: 20, Classes: 3, NoBias: true},
	kernels.LinearUpdate{Batch: 4, In: 20, Out: 7, Rule: optim.SGD{}.Rule(), NoBias: true},
	kernels.LinearUpdate{Batch: 4, In: 20, Out: 7},
	kernels.LinearUpdate{Batch: 4, In: 20, Out: 7, NoBias: true},
}

// TestComparisons writes the comparisons of the ops with their kernels: what is right is
// exact, and what is compared with it is not.
func TestComparisons(t *testing.T) {
	for _, op := range append(slices.Clone(ops), unbiased...) {
		f, err := FormOf(op)
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.comparison(gpu, op)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := f.comparison(gpu, wide); err == nil || !strings.Contains(err.Error(), "asks for no conv") {
			t.Errorf("%s: for another op's kernel: got %v, want that its form has none", op.Key(), err)
		}
		plain, err := Write("plain", gpu, hlo.HighestPrecision, f.Shapes(), func(_ *hlo.Builder, in []*Node) []*Node { return f.Build(fused.Ops{}, in) })
		if err != nil {
			t.Fatal(err)
		}
		both, err := spoiled(op, 0, nil).comparison(gpu, op) // with the plain form for the kernel
		if err != nil {
			t.Fatal(err)
		}
		exact := func(p *hlo.Program) int { return strings.Count(string(p.Text(nil)), "HIGHEST") }
		if got, beside, want := exact(p), exact(both), exact(plain); got != want || beside != want {
			t.Errorf("%s: got %d exact factors, and %d beside the plain form, want its %d", op.Key(), got, beside, want)
		}
		if len(p.Calls()) == 0 {
			t.Errorf("%s: got no kernel", op.Key())
		}
	}
}

// manner is how an own op may be done: so many turns of a loop, and what comes out.
type manner struct {
	turns int
	by    string // right, wrong, or kernel, which a CPU refuses
}

// own is an op of the tests. Its tilings are plain graphs: number M of them. It gives
// what it gets.
type own struct {
	name    string
	manners []manner
	tile    kernels.Tile
}

// plainTurns is what its plain form takes: much longer than a good manner.
const plainTurns = 3000

func (o own) Key() string { return o.name }
func (o own) Tiles() (l []kernels.Tile) {
	for i := range o.manners {
		l = append(l, kernels.Tile{M: i})
	}
	return l
}
func (o own) With(t kernels.Tile) kernels.Op { o.tile = t; return o }
func (o own) Form() Form {
	return Form{Inputs: []Input{{Shape: vector}}, Build: func(ops fused.Ops, in []*Node) []*Node {
		w := manner{plainTurns, "right"}
		if ops.Builder != nil {
			if chosen, is := ops.Choose(o).(own); is {
				w = o.manners[chosen.tile.M]
			}
		}
		switch w.by {
		case "wrong":
			return []*Node{Neg(turn(in[0], w.turns))}
		case "kernel":
			k := triton.Kernel{Name: "own", Inputs: vectors, Outputs: vectors, Body: func(b *triton.Block) {
				i := b.Range(vector.Size())
				b.Output(0).At(i).Store(b.Input(0).At(i).Load())
			}}
			return fused.Call(ops.Builder, k, in[0])
		}
		return []*Node{turn(in[0], w.turns)}
	}}
}

// turn takes a while to give x.
func turn(x *Node, turns int) *Node {
	g := x.Graph()
	none, one, half := Const(g, int32(0)), Const(g, int32(1)), Const(g, float32(0.5)) // those of a closure are not seen by the next
	state := func(g *Graph) []*Node {
		return []*Node{Parameter(g, "left", none.Shape()), Parameter(g, "x", x.Shape()), Parameter(g, "y", x.Shape())}
	}
	more := NewClosure(g, func(g *Graph) []*Node { return []*Node{GreaterThan(state(g)[0], none)} })
	next := NewClosure(g, func(g *Graph) []*Node {
		l := state(g)
		return []*Node{Sub(l[0], one), l[1], Mul(Add(l[1], l[2]), half)}
	})
	return While(more, next, Const(g, int32(turns)), x, x)[2]
}

// chosen is the tiling that a table has for an own op.
func chosen(table *Table, op kernels.Op) int {
	if op := table.Choose(op); op != nil {
		return op.(own).tile.M
	}
	return none
}

const none = -1 // XLA's own form

// TestTryCompares holds that a tiling is kept only if its numbers are right, however fast
// it is, and that what is wrong with one costs no other op.
func TestTryCompares(t *testing.T) {
	s := serve(t)
	slow, fast, faster, wrong, refused := manner{plainTurns, "right"}, manner{200, "right"}, manner{20, "right"}, manner{1, "wrong"}, manner{0, "kernel"}
	tests := []struct {
		name    string
		manners []manner
		want    int   // the tiling
		told    []int // of which it is told that they are wrong
		usual   int   // what Usual leaves
	}{
		{"a faster one", []manner{slow, fast}, 1, nil, 0},
		{"one that is wrong", []manner{slow, wrong, fast, faster}, 3, []int{1}, 0},
		{"two that are wrong, and one that is refused", []manner{slow, wrong, refused, {3, "wrong"}, fast}, 4, []int{1, 3}, 0},
		{"the usual one is wrong", []manner{wrong, fast}, 1, []int{0}, none},
		{"all are wrong", []manner{wrong, {2, "wrong"}}, none, []int{0, 1}, none},
		{"the usual one is the best", []manner{faster, slow, {600, "wrong"}}, 0, nil, 0},
	}
	table := &Table{Path: filepath.Join(t.TempDir(), "table.json")}
	var all []kernels.Op
	for i, tt := range tests {
		op := own{name: fmt.Sprint("own ", i), manners: tt.manners}
		all = append(all, op)
		table.Choose(op)
	}
	told := map[string][]int{}
	err := table.Try(context.Background(), s, Options{Wrong: func(op kernels.Op, tile kernels.Tile, why error) {
		told[op.Key()] = append(told[op.Key()], tile.M)
		if !strings.Contains(why.Error(), "off by 2.0e+00, want 2e-03") {
			t.Errorf("%s: told %v, want how far it is off", op.Key(), why)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	table.UseProposed(true)
	for i, tt := range tests {
		kept := &Table{Path: table.Path}
		if err := kept.Refresh(); err != nil {
			t.Fatal(err)
		}
		kept.UseProposed(true)
		if got, disk := chosen(table, all[i]), chosen(kept, all[i]); got != tt.want || disk != tt.want {
			t.Errorf("%s: got tiling %d, and %d on disk, want %d: %+v", tt.name, got, disk, tt.want, table.Known(all[i].Key()))
		}
		slices.Sort(told[all[i].Key()])
		if got := told[all[i].Key()]; !slices.Equal(got, tt.told) {
			t.Errorf("%s: told that %v are wrong, want %v", tt.name, got, tt.told)
		}
		if table.Reset(all[i]); chosen(table, all[i]) != tt.usual {
			t.Errorf("%s: as usual: got tiling %d, want %d", tt.name, chosen(table, all[i]), tt.usual)
		}
	}
	if n := len(table.Wanted()); n != 0 {
		t.Errorf("got %d ops still wanted, want none", n)
	}
}

// TestTryEnds ends a search before each thing that it asks the device for. What is known
// then is right, and the rest stays wanted.
func TestTryEnds(t *testing.T) {
	s := serve(t)
	op := own{name: "own", manners: []manner{{plainTurns / 8, "right"}, {1, "wrong"}, {20, "right"}}}
	enough := errors.New("enough")
	for last := range 8 { // plain, usual, compared; two others, and both compared
		table, left := &Table{Path: filepath.Join(t.TempDir(), "table.json")}, last
		table.Choose(op)
		err := table.Try(context.Background(), s, Options{Before: func() error {
			if left--; left < 0 {
				return enough
			}
			return nil
		}})
		kept := &Table{Path: table.Path}
		if err := kept.Refresh(); err != nil {
			t.Fatal(err)
		}
		kept.UseProposed(true)
		want := 0
		if last == 7 {
			want, enough = 2, nil
		}
		if got := chosen(kept, op); got != want || !errors.Is(err, enough) {
			t.Errorf("ended before %d: got tiling %d and %v, want %d and %v", last, got, err, want, enough)
		}
		if last == 7 {
			table.Accept(op)
		}
		if left := len(table.Wanted()); left != 1-want/2 {
			t.Errorf("ended before %d: got %d ops wanted", last, left)
		}
	}
}
