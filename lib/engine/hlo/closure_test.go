package hlo_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// loop is While over a counter from 0 to n and one more value.
func loop(n int, init *Node, step func(i, x *Node) *Node) *Node {
	g := init.Graph()
	i32 := shapes.Make(dtypes.Int32)
	cond := NewClosure(g, func(g *Graph) []*Node {
		i := Parameter(g, "i", i32)
		Parameter(g, "x", init.Shape())
		return []*Node{LessThan(i, Const(g, int32(n)))}
	})
	body := NewClosure(g, func(g *Graph) []*Node {
		i := Parameter(g, "i", i32)
		x := Parameter(g, "x", init.Shape())
		next := step(i, x)
		return []*Node{Add(i, Const(g, int32(1))), next}
	})
	return While(cond, body, Const(g, int32(0)), init)[1]
}

// branch is If with one result.
func branch(pred *Node, yes, no func() *Node) *Node {
	g := pred.Graph()
	closure := func(f func() *Node) *Function {
		return NewClosure(g, func(*Graph) []*Node { return []*Node{f()} })
	}
	return If(pred, closure(yes), closure(no))[0]
}

// TestClosures runs what GoMLX's own closures cannot do: ops with closures
// inside closures, parameters of one name, and constants that GoMLX makes once
// for a whole graph, wherever it first meets them.
func TestClosures(t *testing.T) {
	b := newBackend(t)
	tests := []struct {
		name string
		fn   func(x *Node) *Node // x is {3, 1, 2}
		want []float32
	}{
		{"sort in a loop", func(x *Node) *Node {
			return loop(2, x, func(i, x *Node) *Node { return Sort(x, 0, true) })
		}, []float32{1, 2, 3}},
		{"loop in a loop", func(x *Node) *Node {
			return loop(2, x, func(i, x *Node) *Node {
				return loop(3, x, func(j, x *Node) *Node { return AddScalar(x, 1) })
			})
		}, []float32{9, 7, 8}},
		{"branch in a loop", func(x *Node) *Node {
			return loop(3, x, func(i, x *Node) *Node {
				return branch(GreaterThan(i, Const(i.Graph(), int32(0))),
					func() *Node { return MulScalar(x, 2) }, func() *Node { return Neg(x) })
			})
		}, []float32{-12, -4, -8}},
		{"values of main in a loop in a loop", func(x *Node) *Node {
			y := MulScalar(x, 10)
			return loop(1, x, func(i, x *Node) *Node {
				return loop(2, x, func(j, x *Node) *Node { return Add(x, y) })
			})
		}, []float32{63, 21, 42}},
		{"values of a body in its branches", func(x *Node) *Node {
			return loop(2, x, func(i, x *Node) *Node {
				y := AddScalar(x, 1)
				return branch(Equal(i, Const(i.Graph(), int32(0))),
					func() *Node { return y }, func() *Node { return Mul(y, y) })
			})
		}, []float32{25, 9, 16}},
		{"constant of main in a closure", func(x *Node) *Node {
			two := Const(x.Graph(), float32(2))
			y := Mul(x, two)
			return loop(2, y, func(i, x *Node) *Node { return Mul(x, two) })
		}, []float32{24, 8, 16}},
		{"op on constants of main, made in a closure and used outside", func(x *Node) *Node {
			two := Const(x.Graph(), []float32{2, 2, 2})
			var leaked *Node
			y := loop(2, x, func(i, x *Node) *Node {
				leaked = Exp(two) // of main, for GoMLX
				return Mul(x, Sub(leaked, leaked))
			})
			return Add(y, Log(leaked))
		}, []float32{2, 2, 2}},
		{"branch made in a closure, used outside", func(x *Node) *Node {
			pred := GreaterThan(ReduceAllMax(x), Const(x.Graph(), float32(0)))
			var leaked *Node
			loop(1, x, func(i, y *Node) *Node {
				leaked = branch(pred, func() *Node { return Neg(x) }, func() *Node { return x })
				return Add(y, leaked)
			})
			return MulScalar(leaked, 3)
		}, []float32{-9, -3, -6}},
		{"large constant in two regions", func(x *Node) *Node {
			c := Const(x.Graph(), []float32{1, 2, 3})
			y := loop(1, x, func(i, x *Node) *Node { return Add(x, c) })
			return loop(1, y, func(i, x *Node) *Node { return Mul(x, c) })
		}, []float32{4, 6, 15}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := CallOnce(b, tt.fn, []float32{3, 1, 2})
			if err != nil {
				t.Fatal(err)
			}
			got := out.Value().([]float32)
			for i := range tt.want {
				if diff := got[i] - tt.want[i]; diff > 1e-5 || diff < -1e-5 {
					t.Fatalf("got %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// TestClosureRefusals shows what closures may not do, and that it is an error
// when the program is built.
func TestClosureRefusals(t *testing.T) {
	f32 := shapes.Make(dtypes.Float32)
	tests := []struct {
		name  string
		build func(d *draft) error
		want  string
	}{
		{"parameter of an ended closure", func(d *draft) error {
			var leaked compute.Value
			d.closure(func(c compute.Function) []compute.Value {
				leaked = d.param(c, dtypes.Float32)
				return []compute.Value{leaked}
			})
			_, err := d.main().Neg(leaked)
			return err
		}, "hlo: Neg: got a parameter of a closure that has ended"},
		{"op on a parameter of an ended closure", func(d *draft) error {
			var leaked compute.Value
			d.closure(func(c compute.Function) []compute.Value {
				leaked = d.v(c.Exp(d.param(c, dtypes.Float32)))
				return []compute.Value{leaked}
			})
			_, err := d.main().Neg(leaked)
			return err
		}, "that has ended"},
		{"value of an open sibling", func(d *draft) error {
			f := d.main()
			x := d.param(f, dtypes.Float32)
			sibling := d.v2(f.Closure())
			theirs := d.param(sibling, dtypes.Float32)
			branch := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.v(c.Neg(theirs))} })
			other := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{x} })
			_, err := f.If(d.num(f, []bool{true}), branch, other)
			return err
		}, `function "main" uses a value of a closure`},
		{"closure's value in main", func(d *draft) error {
			f := d.main()
			open := d.v2(f.Closure())
			_, err := f.Neg(d.param(open, dtypes.Float32))
			return err
		}, `hlo: Neg: function "main" uses a value of a closure`},
		{"main's value in a function", func(d *draft) error {
			x := d.param(d.main(), dtypes.Float32)
			f, err := d.b.NewFunction("f")
			d.ok(err)
			_, err = f.Neg(x)
			return err
		}, `function "f" uses a value of function "main"; pass it as an argument`},
		{"comparator that captures", func(d *draft) error {
			f := d.main()
			x := d.param(f, dtypes.Float32)
			c := d.closure(func(c compute.Function) []compute.Value {
				a := d.v(c.Add(d.param(c, dtypes.Float32), x))
				return []compute.Value{d.v(c.LessThan(a, d.param(c, dtypes.Float32)))}
			})
			_, err := f.Sort(c, 0, true, d.param(f, dtypes.Float32, 3))
			return err
		}, "the comparator uses values of function \"main\""},
		{"closure that has not returned", func(d *draft) error {
			f := d.main()
			c := d.v2(f.Closure())
			_, err := f.While(c, c, d.param(f, dtypes.Float32))
			return err
		}, "While: condition has not returned"},
		{"condition that is no boolean", func(d *draft) error {
			f := d.main()
			c := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.param(c, dtypes.Float32)} })
			_, err := f.While(c, c, d.param(f, dtypes.Float32))
			return err
		}, "condition returns [(Float32)], want [(Bool)]"},
		{"branches that differ", func(d *draft) error {
			f := d.main()
			a := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.num(c, []float32{1})} })
			b := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.num(c, []int32{1})} })
			_, err := f.If(d.num(f, []bool{true}), a, b)
			return err
		}, "false branch returns [(Int32)], want [(Float32)]"},
		{"op after Return", func(d *draft) error {
			f := d.main()
			x := d.param(f, dtypes.Float32)
			d.ok(f.Return([]compute.Value{x}, nil))
			_, err := f.Neg(x)
			return err
		}, `hlo: Neg: function "main" has returned already`},
		{"call of a closure", func(d *draft) error {
			f := d.main()
			c := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.num(c, []float32{1})} })
			_, err := f.Call(c)
			return err
		}, "got a closure, want a function made by NewFunction"},
		{"call with other shapes", func(d *draft) error {
			g, err := d.b.NewFunction("g")
			d.ok(err)
			d.ok(g.Return([]compute.Value{d.v(g.Parameter("x", f32, nil))}, nil))
			f := d.main()
			_, err = f.Call(g, d.param(f, dtypes.Int32))
			return err
		}, `function "g" got [(Int32)], want [(Float32)]`},
		{"values of another builder", func(d *draft) error {
			other := newDraft(d.t)
			_, err := d.main().Neg(other.param(other.main(), dtypes.Float32))
			return err
		}, "values cannot cross builders"},
		{"no value at all", func(d *draft) error {
			_, err := d.main().Add(nil, "x")
			return err
		}, "got <nil>, want a value made by this builder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.build(newDraft(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func (d *draft) v2(f compute.Function, err error) compute.Function {
	d.t.Helper()
	d.ok(err)
	return f
}
