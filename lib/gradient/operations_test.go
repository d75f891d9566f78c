package gradient

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
)

// TestOperations holds gradients of operations, and their gradients, to finite differences on
// the pure-Go backend.
func TestOperations(t *testing.T) {
	backend, err := gobackend.New("ops_sequential") // GoMLX v0.28.2 hangs in sorting otherwise, with few processors
	if err != nil {
		t.Fatal(err)
	}
	const n = 6
	x := []float64{0.7, 1.9, 0.3, 1.2, 2.6, 0.9}
	for name, f := range map[string]func(x *Node) *Node{
		"Rsqrt": Rsqrt, "Expm1": Expm1,
		"Floor": func(x *Node) *Node { return Mul(x, Floor(x)) },
		"Clamp": func(x *Node) *Node {
			return Mul(x, Clamp(Const(x.Graph(), 0.5), x, Const(x.Graph(), 1.5)))
		},
		"Atan2": func(x *Node) *Node { return Atan2(x, AddScalar(Square(x), 1)) },
		"Rem":   func(x *Node) *Node { return Mul(x, Rem(x, MulScalar(x, 0.3))) },
		"a product": func(x *Node) *Node {
			return ReduceMultiply(Reshape(x, 2, 3), 1)
		},
		"Sort": func(x *Node) *Node { return Mul(Square(Sort(x, 0, false)), IotaFull(x.Graph(), x.Shape())) },
		"sorted rows": func(x *Node) *Node {
			return Square(Mul(Sort(Reshape(x, 2, 3), 1, true), IotaFull(x.Graph(), Reshape(x, 2, 3).Shape())))
		},
		"TopK": func(x *Node) *Node {
			v, _ := TopK(Reshape(x, 3, 2), 2, 0)
			return Mul(Square(v), IotaFull(x.Graph(), v.Shape()))
		},
		"Max of a row":    func(x *Node) *Node { return Max(Reshape(x, 2, 3), Sin(Slice(Reshape(x, 2, 3), AxisElem(1)))) },
		"Min of a number": func(x *Node) *Node { return Min(Square(x), ReduceAllMean(x)) },
		"Pow of a column": func(x *Node) *Node { return Pow(Slice(Reshape(x, 3, 2), AxisRange(), AxisElem(0)), Reshape(x, 3, 2)) },
		"Pow to a number": func(x *Node) *Node { return Pow(x, ReduceAllMean(x)) },
		"L2Norm":          func(x *Node) *Node { return L2Norm(Reshape(x, 2, 3), 1) },
		"Abs":             func(x *Node) *Node { return Mul(Abs(AddScalar(x, -1)), x) },
		"Atan2 of a row":  func(x *Node) *Node { return Atan2(Reshape(x, 2, 3), Slice(Reshape(x, 2, 3), AxisElem(1))) },
		"equal values":    func(x *Node) *Node { return Square(Sort(ConvertDType(Floor(x), dtypes.Float64), 0, true)) },
	} {
		loss := func(x *Node) *Node { y := f(x); return ReduceAllSum(Mul(y, Sin(y))) }
		slope := func(x *Node) *Node { return Gradient(loss(x), x)[0] }
		second := func(x *Node) *Node {
			return ReduceAllSum(Mul(slope(x), Cos(IotaFull(x.Graph(), x.Shape()))))
		}
		for what, of := range map[string]func(x *Node) *Node{"gradient": loss, "second derivative": second} {
			exec, err := NewExec(backend, func(x *Node) []*Node { y := of(x); return []*Node{y, Gradient(y, x)[0]} })
			if err != nil {
				t.Fatal(err)
			}
			call := func(x []float64) (float64, []float64) {
				out, err := exec.Call(x)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return out[0].Value().(float64), out[1].Value().([]float64)
			}
			_, got := call(x)
			for i := range n {
				const h = 1e-5
				up, down := append([]float64{}, x...), append([]float64{}, x...)
				up[i], down[i] = x[i]+h, x[i]-h
				a, _ := call(up)
				b, _ := call(down)
				if want := (a - b) / (2 * h); math.Abs(got[i]-want) > 1e-6*max(1, math.Abs(want)) {
					t.Errorf("%s: %s for number %d is %v: want %v", name, what, i, got[i], want)
				}
			}
		}
	}
	got := MustExecOnce(backend, func(x *Node) *Node { return Gradient(ReduceAllMultiply(x), x)[0] }, []float64{2, 0, 5})
	if v := got.Value().([]float64); v[0] != 0 || v[1] != 10 || v[2] != 0 {
		t.Errorf("the gradient of a product with a 0 is %v: want 0 10 0", v)
	}
}
