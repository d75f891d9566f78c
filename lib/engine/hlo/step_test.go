package hlo_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
)

// step is that of a weight [m n] and of what an optimizer keeps of it, arrays in all, whose
// gradient is summed over k.
type step struct{ m, n, k, arrays int }

// run compiles the step and does it once.
func (s step) run(t *testing.T, b *backend, threads int, inPlace bool, x, y, knobs []float32, state [][]float32) [][]float32 {
	t.Helper()
	d := newDraft(t)
	d.b.Products = threads
	f := d.main()
	in := []compute.Value{d.param(f, dtypes.Float32, s.k, s.m), d.param(f, dtypes.Float32, s.k, s.n), d.param(f, dtypes.Float32, len(knobs))}
	for range state {
		in = append(in, d.param(f, dtypes.Float32, s.m, s.n))
	}
	return b.once(t, d.program(d.vs(f.Step(inPlace, in[0], in[1], in[2], in[3:]...))...), append([][]float32{x, y, knobs}, state...)...)
}

// want is the state afterwards, in float64.
func (s step) want(x, y, knobs []float32, state [][]float32) [][]float64 {
	var q [7]float64
	for i, v := range knobs {
		q[i] = float64(v)
	}
	all := make([][]float64, s.arrays)
	for i := range all {
		all[i] = make([]float64, s.m*s.n)
	}
	for i := range s.m {
		for j := range s.n {
			var g float64
			for p := range s.k {
				g += float64(x[p*s.m+i]) * float64(y[p*s.n+j])
			}
			at := i*s.n + j
			by := g
			if s.arrays > 1 {
				by = q[1]*float64(state[1][at]) + q[2]*g
				all[1][at] = by
			}
			if s.arrays > 2 {
				u := q[3]*float64(state[2][at]) + q[4]*g*g
				all[2][at] = u
				by /= q[5]*math.Sqrt(u) + q[6]
			}
			all[0][at] = float64(state[0][at]) - q[0]*by
		}
	}
	return all
}

// TestStep compares steps with sums in float64: by rows and by columns, with one depth and
// two, and parts of blocks in each direction. Neither the number of threads nor whether it is
// in place changes a bit.
func TestStep(t *testing.T) { products(t, testStep) }

func testStep(t *testing.T, b *backend) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][3]int{{1, 1, 1}, {12, 32, 100}, {13, 33, 100}, {25, 17, 3}, {11, 500, 40}, {301, 1000, 100}, {97, 130, 512}, {150, 300, 500}, {70, 290, 700}} {
		for arrays := range 3 {
			s := step{size[0], size[1], size[2], arrays + 1}
			t.Run(fmt.Sprintf("%dx%dx%d/%d", s.m, s.n, s.k, s.arrays), func(t *testing.T) {
				x, y := matrix(r, s.k, s.m), matrix(r, s.k, s.n)
				knobs := []float32{0.1, 0.9, 0.2, 0.8, 0.3, 1.5, 0.01}
				var state [][]float32
				for range s.arrays {
					state = append(state, matrix(r, s.m, s.n))
				}
				if s.arrays > 2 { // means of squares
					for i, v := range state[2] {
						state[2][i] = 0.1 + v*v
					}
				}
				want := s.want(x, y, knobs, state)
				var first [][]float32
				for _, threads := range []int{1, 2, 5} {
					for _, inPlace := range []bool{false, true} {
						got := s.run(t, b, threads, inPlace, x, y, knobs, state)
						if first == nil {
							first = got
						}
						for i := range got {
							if !slices.Equal(got[i], first[i]) {
								t.Errorf("array %d: other bits with %d threads, in place %v, than with one", i, threads, inPlace)
							}
						}
					}
				}
				for i := range first {
					for at, v := range first[i] {
						if w := want[i][at]; !(math.Abs(float64(v)-w) <= 2e-5*(1+math.Abs(w))) {
							t.Fatalf("array %d, element %d: got %v, want %v", i, at, v, w)
						}
					}
				}
			})
		}
	}
}

// TestStepRefuses holds what is no step, and what is no product.
func TestStepRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		x, y  []int
		state [][]int
		want  string
	}{
		{"depths", []int{5, 4}, []int{6, 7}, [][]int{{4, 7}}, "want [k m], [k n] and [m n]"},
		{"weight", []int{5, 4}, []int{5, 7}, [][]int{{7, 4}}, "want [k m], [k n] and [m n]"},
		{"velocity", []int{5, 4}, []int{5, 7}, [][]int{{4, 7}, {4, 8}}, "want [k m], [k n] and [m n]"},
		{"vector", []int{5}, []int{5, 7}, [][]int{{4, 7}}, "want matrices of float32 and 1 to 3"},
		{"no weight", []int{5, 4}, []int{5, 7}, nil, "want matrices of float32 and 1 to 3"},
		{"four", []int{5, 4}, []int{5, 7}, [][]int{{4, 7}, {4, 7}, {4, 7}, {4, 7}}, "want matrices of float32 and 1 to 3"},
		{"double", []int{5, 4}, []int{5, 7}, [][]int{{4, 7}}, "want matrices of float32 and 1 to 3"},
	} {
		d := newDraft(t)
		f := d.main()
		var state []compute.Value
		for _, dims := range tt.state {
			state = append(state, d.param(f, dtypes.Float32, dims...))
		}
		of := dtypes.Float32
		if tt.name == "double" {
			of = dtypes.Float64
		}
		_, err := f.Step(true, d.param(f, of, tt.x...), d.param(f, dtypes.Float32, tt.y...), d.param(f, dtypes.Float32, 7), state...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestStepRefusesAtRun holds that operands which do not fit together are an error of the run.
func TestStepRefusesAtRun(t *testing.T) { products(t, testStepRefusesAtRun) }

func testStepRefusesAtRun(t *testing.T, b *backend) {
	for _, tt := range []struct {
		name             string
		x, knobs, w, out []int
		scratch          int
	}{
		{"good", []int{5, 4}, []int{7}, []int{4, 6}, []int{4, 6}, 1 << 20},
		{"depth", []int{6, 4}, []int{7}, []int{4, 6}, []int{4, 6}, 1 << 20},
		{"knobs", []int{5, 4}, []int{6}, []int{4, 6}, []int{4, 6}, 1 << 20},
		{"knobs as a matrix", []int{5, 4}, []int{7, 1}, []int{4, 6}, []int{4, 6}, 1 << 20},
		{"weight", []int{5, 4}, []int{7}, []int{6, 4}, []int{4, 6}, 1 << 20},
		{"result", []int{5, 4}, []int{7}, []int{4, 6}, []int{4, 5}, 1 << 20},
		{"scratch", []int{5, 4}, []int{7}, []int{4, 6}, []int{4, 6}, 100},
	} {
		d := newDraft(t)
		f := d.main()
		var in []compute.Value
		for _, dims := range [][]int{tt.x, {5, 6}, tt.knobs, tt.w} {
			in = append(in, d.num(f, make([]float32, shapes.Make(dtypes.Float32, dims...).Size()), dims...))
		}
		out := d.vs(f.CustomCall(gemm.Target+b.bits, in, []shapes.Shape{shapes.Make(dtypes.Float32, tt.out...), shapes.Make(dtypes.Float32, tt.scratch)},
			hlo.CallConfig{Backend: map[string]any{"ta": 1, "tb": 0}}))
		program, err := b.client.Compile(d.program(out[0]).Text(nil), pjrt.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		result := make([]pjrt.Buffer, 1)
		err = program.Execute(nil, result, nil, nil, pjrt.Wait, nil)
		if tt.name == "good" {
			if err != nil {
				t.Errorf("good: %v", err)
			} else if err := b.client.Free(result[0]); err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "product: shapes disagree") {
			t.Errorf("%s: got %v, want that shapes disagree", tt.name, err)
		}
		program.Close()
	}
}
