package models

import (
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/device"
	"gaiden/lib/session"
)

// cpu is XLA, by a session in this process: the Go backend has no DynamicSlice.
func cpu(t *testing.T) compute.Backend {
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if plugin == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	w := &device.Worker{Version: session.Version, Generation: 1, Plugin: device.Plugin{Path: plugin, Device: "cpu"}, Socket: filepath.Join(t.TempDir(), "s")}
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	go w.Run(l)
	s, err := session.Config{Socket: w.Socket, NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Backend()
}

// TestScan holds that the two ways of the gradient, with what the gates got kept and
// computed again, give the same outputs, cells and gradients.
func TestScan(t *testing.T) {
	backend := cpu(t)
	for _, length := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			const n, u = 3, 4
			run := func(keep bool) (numbers []float32) {
				exec, err := NewExec(backend, func(g *Graph) []*Node {
					wave := func(step float64, dims ...int) *Node {
						x := IotaFull(g, shapes.Make(dtypes.Float32, dims...))
						return Sin(MulScalar(AddScalar(x, 1), step))
					}
					z, biases, recurrent := wave(0.7, length*n, 4*u), wave(0.4, 4*u), wave(0.3, u, 4*u)
					h, c := scan(z, biases, recurrent, wave(0.2, n, u), wave(0.1, n, u), keep)
					loss := ReduceAllSum(Mul(h, wave(0.9, length, n, u)))
					return append([]*Node{h, c}, Gradient(loss, z, biases, recurrent)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Call()
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range out {
					x.ConstFlatData(func(flat any) { numbers = append(numbers, flat.([]float32)...) })
				}
				return numbers
			}
			got, want := run(true), run(false)
			if size := 2*length*n*u + length*n*4*u + 4*u + u*4*u; len(got) != size || len(want) != size {
				t.Fatalf("got %d and %d numbers, want %d", len(got), len(want), size)
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-6 {
					t.Fatalf("number %d of %d: kept %v, computed again %v", i, len(want), got[i], want[i])
				}
			}
		})
	}
}

// TestScanNaN holds that a number that is none stays so, in its sequence and in no
// other: what XLA's CPU compiler makes of a function may lose it (see pool.go).
func TestScanNaN(t *testing.T) {
	backend := cpu(t)
	for _, keep := range []bool{true, false} {
		for _, u := range []int{3, 64} {
			t.Run(fmt.Sprint(keep, u), func(t *testing.T) {
				const n, length, which = 4, 3, 2
				exec, err := NewExec(backend, func(g *Graph) []*Node {
					wave := func(dims ...int) *Node { return Sin(IotaFull(g, shapes.Make(dtypes.Float32, dims...))) }
					first := Equal(IotaFull(g, shapes.Make(dtypes.Int32, length*n, 4*u)), Const(g, int32(which*4*u)))
					z := Add(wave(length*n, 4*u), Where(first, Const(g, float32(math.NaN())), Const(g, float32(0))))
					h, c := scan(z, wave(4*u), wave(u, 4*u), wave(n, u), wave(n, u), keep)
					return append([]*Node{h, c}, Gradient(ReduceAllSum(h), z)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Call()
				if err != nil {
					t.Fatal(err)
				}
				for k, row := range []int{u, u, 4 * u} { // outputs, cells, the gradient of z
					out[k].ConstFlatData(func(flat any) {
						seen := 0
						for i, v := range flat.([]float32) {
							if !math.IsNaN(float64(v)) {
								continue
							}
							if seen++; i/row%n != which {
								t.Errorf("result %d: number %d is NaN, of sequence %d: want only %d's", k, i, i/row%n, which)
								return
							}
						}
						if least := (length - 1) * row; seen < least { // at the first place one cell's
							t.Errorf("result %d: %d numbers are NaN, want %d or more", k, seen, least)
						}
					})
				}
			})
		}
	}
}

// unrolled is an LSTM written out place by place, in GoMLX's own operations.
func unrolled(x, weights, recurrent, biases *Node) *Node {
	d := x.Shape().Dimensions
	n, u := d[0], recurrent.Shape().Dimensions[0]
	h := Zeros(x.Graph(), shapes.Make(x.DType(), n, u))
	c := h
	var all []*Node
	for i := range d[1] {
		at := Reshape(Slice(x, AxisRange(), AxisElem(i)), n, d[2])
		z := Add(Add(MatMul(at, weights), MatMul(h, recurrent)), ExpandLeftToRank(biases, 2))
		gate := func(k int) *Node { return Slice(z, AxisRange(), AxisRange(k*u, (k+1)*u)) }
		c = Add(Mul(Sigmoid(gate(1)), c), Mul(Sigmoid(gate(0)), Tanh(gate(2))))
		h = Mul(Sigmoid(gate(3)), Tanh(c))
		all = append(all, Reshape(h, n, 1, u))
	}
	return Concatenate(all, 1)
}

// TestUnrolled holds that the layer, whose gradient is a loop of our own, has the
// outputs and the gradients that GoMLX derives of the same LSTM without a loop, in
// training and outside.
func TestUnrolled(t *testing.T) {
	backend := cpu(t)
	const n, length, in, u = 3, 6, 4, 17
	names := []string{"outputs", "gradient of x", "gradient of weights", "gradient of recurrent", "gradient of biases"}
	for _, training := range []bool{true, false} {
		wave := func(step float64) Init {
			return func(*model.Store) model.VariableInitializer {
				return func(g *Graph, shape shapes.Shape) *Node {
					return MulScalar(Sin(MulScalar(AddScalar(IotaFull(g, shape), 1), step)), 0.5)
				}
			}
		}
		exec, err := model.NewExec(backend, model.NewStore(), func(scope *model.Scope, g *Graph) []*Node {
			scope.Store().SetTraining(g, training)
			value := func(step float64, dims ...int) *Node {
				return wave(step)(nil)(g, shapes.Make(dtypes.Float32, dims...))
			}
			x := value(0.7, n, length, in)
			scope.At("l").WithInitializer(wave(0.4)(nil)).VariableWithShape("biases", shapes.Make(dtypes.Float32, 4*u)) // others than a new layer's
			layer := LSTM{Name: "l", Units: u, Init: wave(0.37)}.Apply(scope.In("l"), x)
			var vars []*Node
			for _, name := range []string{"weights", "recurrent", "biases"} {
				vars = append(vars, scope.At("l").GetVariable(name).NodeValue(g))
			}
			plain := unrolled(x, vars[0], vars[1], vars[2])
			var l []*Node
			for _, y := range []*Node{layer, plain} {
				loss := ReduceAllSum(Mul(Square(y), value(0.9, n, length, u)))
				l = append(append(l, y), Gradient(loss, append([]*Node{x}, vars...)...)...)
			}
			return l
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Exec()
		if err != nil {
			t.Fatal(err)
		}
		numbers := make([][]float32, len(out))
		for i, x := range out {
			x.ConstFlatData(func(flat any) { numbers[i] = slices.Clone(flat.([]float32)) })
		}
		for i, name := range names {
			got, want := numbers[i], numbers[i+len(names)]
			largest, off := 0.0, 0.0
			for k := range want {
				largest = max(largest, math.Abs(float64(want[k])))
				off = max(off, math.Abs(float64(got[k]-want[k])))
			}
			if len(got) != len(want) || largest == 0 || !(off <= 1e-5*largest) {
				t.Errorf("%s, training %t: %d numbers, furthest apart %g, want %d numbers within 1e-5 of the largest, %g", name, training, len(got), off, len(want), largest)
			}
		}
	}
}

// TestRecurrence holds the recurrence of two layers, one behind the other, to the same
// written out, both ways. In bfloat16 the way back of each has numbers that no other
// closure of the graph may use.
func TestRecurrence(t *testing.T) {
	backend := cpu(t)
	const n, length, u = 3, 4, 2
	for _, tt := range []struct {
		kind dtypes.DType
		off  float32
	}{{dtypes.Float32, 1e-5}, {dtypes.BFloat16, 0.1}} {
		exec, err := NewExec(backend, func(g *Graph) []*Node {
			wave := func(step float64, dims ...int) *Node {
				return ConvertDType(Sin(MulScalar(AddScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 1), step)), tt.kind)
			}
			z, recurrent, v := wave(0.7, length, n, 4*u), wave(0.3, u, 4*u), wave(0.9, length, n, u)
			var out []*Node
			for _, layer := range []func(z *Node) *Node{
				func(z *Node) *Node { return Recurrence(z, recurrent) },
				func(z *Node) *Node {
					same := DiagonalWithValue(ScalarOne(g, tt.kind), 4*u)
					return TransposeAllAxes(unrolled(TransposeAllAxes(z, 1, 0, 2), same, recurrent, Zeros(g, shapes.Make(tt.kind, 4*u))), 1, 0, 2)
				},
			} {
				h := layer(z)
				h = layer(Concatenate([]*Node{h, h, h, h}, -1))
				for _, x := range append([]*Node{h}, Gradient(ReduceAllSum(ConvertDType(Mul(h, v), dtypes.Float32)), z, recurrent)...) {
					out = append(out, ConvertDType(x, dtypes.Float32))
				}
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			out[i].MustConstFlatData(func(got any) {
				out[i+3].MustConstFlatData(func(want any) {
					for k, w := range want.([]float32) {
						if g := got.([]float32)[k]; !(max(g-w, w-g) <= tt.off) {
							t.Errorf("%s, output %d: got number %d %v, want %v", tt.kind, i, k, g, w)
						}
					}
				})
			})
		}
	}
}
