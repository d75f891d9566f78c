package hlo_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/lstm"
	"gaiden/lib/engine/pjrt"
)

// vectors runs a test for each kind of vectors that package lstm has handlers for, whose
// targets have its bits behind their names.
func vectors(t *testing.T, test func(t *testing.T, b *backend)) {
	t.Helper()
	b := newBackend(t)
	if len(lstm.Handlers()) == 0 {
		t.Skip("needs a processor with AVX2, for which package lstm is: run it on one (grep avx2 /proc/cpuinfo)")
	}
	for _, h := range lstm.Handlers() {
		t.Run(fmt.Sprint(h.Bits), func(t *testing.T) {
			b.bits = fmt.Sprint(h.Bits)
			test(t, b)
		})
	}
}

// matrix is numbers of [-1, 1).
func matrix(r *rand.Rand, rows, cols int) []float32 {
	m := make([]float32, rows*cols)
	for i := range m {
		m[i] = 2*r.Float32() - 1
	}
	return m
}

// recurrence is an LSTM of so many places, sequences and units.
type recurrence struct{ length, n, u int }

// ahead runs it forwards: z, biases, recurrent, h0 and c0 to h, c and gates.
func (r recurrence) ahead(t *testing.T, b *backend, threads int, in ...[]float32) [][]float32 {
	t.Helper()
	d := newDraft(t)
	d.b.Threads = threads
	f := d.main()
	p := func(dims ...int) compute.Value { return d.param(f, dtypes.Float32, dims...) }
	out := d.vs(f.LSTM(p(r.length, r.n, 4*r.u), p(4*r.u), p(r.u, 4*r.u), p(r.n, r.u), p(r.n, r.u)))
	return b.once(t, d.program(out...), in...)
}

// back runs it backwards: gates, recurrent, c0, c and v to dz.
func (r recurrence) back(t *testing.T, b *backend, threads int, in ...[]float32) []float32 {
	t.Helper()
	d := newDraft(t)
	d.b.Threads = threads
	f := d.main()
	p := func(dims ...int) compute.Value { return d.param(f, dtypes.Float32, dims...) }
	out := d.v(f.LSTMBack(p(r.length, r.n, 4*r.u), p(r.u, 4*r.u), p(r.n, r.u), p(r.length, r.n, r.u), p(r.length, r.n, r.u)))
	return b.once(t, d.program(out), in...)[0]
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// wantAhead is the same in float64.
func (r recurrence) wantAhead(z, biases, recurrent, h0, c0 []float32) (h, c, gates []float64) {
	u := r.u
	h, c, gates = make([]float64, r.length*r.n*u), make([]float64, r.length*r.n*u), make([]float64, r.length*r.n*4*u)
	for at := range r.length * r.n { // a place of a sequence
		before := func(all []float64, start []float32, x int) float64 {
			if at < r.n {
				return float64(start[at*u+x])
			}
			return all[(at-r.n)*u+x]
		}
		for x := range 4 * u {
			s := float64(z[at*4*u+x]) + float64(biases[x])
			for p := range u {
				s += before(h, h0, p) * float64(recurrent[p*4*u+x])
			}
			if gates[at*4*u+x] = logistic(s); x/u == 2 {
				gates[at*4*u+x] = math.Tanh(s)
			}
		}
		g := gates[at*4*u:]
		for x := range u {
			c[at*u+x] = g[u+x]*before(c, c0, x) + g[x]*g[2*u+x]
			h[at*u+x] = g[3*u+x] * math.Tanh(c[at*u+x])
		}
	}
	return h, c, gates
}

// wantBack is the gradient by z of the sum of v·h, from what wantAhead gave.
func (r recurrence) wantBack(gates []float64, recurrent, c0 []float32, c []float64, v []float32) []float64 {
	u := r.u
	dz := make([]float64, len(gates))
	dc := make([]float64, r.n*u)
	for at := r.length*r.n - 1; at >= 0; at-- {
		g, to := gates[at*4*u:], dz[at*4*u:]
		for x := range u {
			dh := float64(v[at*u+x])
			if at+r.n < r.length*r.n {
				for p := range 4 * u {
					dh += dz[(at+r.n)*4*u+p] * float64(recurrent[x*4*u+p])
				}
			}
			old := 0.0
			if at < r.n {
				old = float64(c0[at*u+x])
			} else {
				old = c[(at-r.n)*u+x]
			}
			i, f, m, o, cell := g[x], g[u+x], g[2*u+x], g[3*u+x], math.Tanh(c[at*u+x])
			e := dc[at%r.n*u+x] + dh*o*(1-cell*cell)
			to[x], to[u+x], to[2*u+x], to[3*u+x] = e*m*i*(1-i), e*old*f*(1-f), e*i*(1-m*m), dh*cell*o*(1-o)
			dc[at%r.n*u+x] = e * f
		}
	}
	return dz
}

func single(x []float64) []float32 {
	s := make([]float32, len(x))
	for i, v := range x {
		s[i] = float32(v)
	}
	return s
}

// near holds numbers to those in float64: off by so much of the largest.
func near(t *testing.T, name string, got []float32, want []float64, off float64) {
	t.Helper()
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(w))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= off*max(largest, 1e-3)) {
			t.Fatalf("%s, number %d of %d: got %v, want %v", name, i, len(want), got[i], w)
		}
	}
}

// TestLSTM compares both ways with the same in float64: parts of blocks and of vectors, more
// depth than one block's, and any number of threads, which changes no bit.
func TestLSTM(t *testing.T) { vectors(t, testLSTM) }

func testLSTM(t *testing.T, b *backend) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, r := range []recurrence{{1, 1, 1}, {3, 4, 5}, {9, 20, 5}, {2, 13, 17}, {3, 70, 33}, {4, 25, 64}, {2, 9, 80}, {2, 5, 270}} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			some := func(scale float32, rows, cols int) []float32 {
				m := matrix(random, rows, cols)
				for i := range m {
					m[i] *= scale
				}
				return m
			}
			z, biases, recurrent := some(3, r.length*r.n, 4*r.u), some(1, 1, 4*r.u), some(float32(2/math.Sqrt(float64(r.u))), r.u, 4*r.u)
			h0, c0, v := some(1, r.n, r.u), some(2, r.n, r.u), some(1, r.length*r.n, r.u)
			h, c, gates := r.wantAhead(z, biases, recurrent, h0, c0)
			dz := r.wantBack(gates, recurrent, c0, c, v)
			var first [][]float32
			for _, threads := range []int{1, 2, 5} {
				got := r.ahead(t, b, threads, z, biases, recurrent, h0, c0)
				got = append(got, r.back(t, b, threads, single(gates), recurrent, c0, single(c), v))
				if first == nil {
					first = got
				}
				for i := range got {
					if !slices.Equal(got[i], first[i]) {
						t.Errorf("result %d: other bits with %d threads than with one", i, threads)
					}
				}
			}
			near(t, "h", first[0], h, 3e-6)
			near(t, "c", first[1], c, 3e-6)
			near(t, "gates", first[2], gates, 3e-6)
			near(t, "dz", first[3], dz, 3e-6)
		})
	}
}

// TestLSTMFar holds gates of large numbers, which are 0, 1 and -1, and what is no number, which
// stays in its sequence.
func TestLSTMFar(t *testing.T) { vectors(t, testLSTMFar) }

func testLSTMFar(t *testing.T, b *backend) {
	r := recurrence{3, 7, 3}
	z := make([]float32, r.length*r.n*4*r.u)
	const lost = 5 // the sequence
	for i := range z {
		z[i] = []float32{1e9, -1e9, 30, -30, 0}[i%5]
	}
	z[lost*4*r.u+1] = float32(math.NaN())
	z[2*4*r.u] = float32(math.Inf(1))
	zero := make([]float32, 100)
	got := r.ahead(t, b, 1, z, zero[:4*r.u], make([]float32, r.u*4*r.u), zero[:r.n*r.u], zero[:r.n*r.u])
	for i, x := range z {
		want := logistic(float64(x))
		if i%(4*r.u)/r.u == 2 {
			want = math.Tanh(float64(x))
		}
		if g := float64(got[2][i]); i/(4*r.u)%r.n != lost && !(math.Abs(g-want) <= 3e-7) {
			t.Errorf("gate %d of %v: got %v, want %v", i, x, g, want)
		}
	}
	for k, row := range []int{r.u, r.u, 4 * r.u} {
		seen := 0
		for i, g := range got[k] {
			if math.IsNaN(float64(g)) {
				if seen++; i/row%r.n != lost {
					t.Errorf("result %d, number %d: got NaN, want it in sequence %d only", k, i, lost)
				}
			}
		}
		if seen < r.length {
			t.Errorf("result %d: got %d times NaN, want it at %d places", k, seen, r.length)
		}
	}
}

// TestLSTMRefuses holds what is no LSTM.
func TestLSTMRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind dtypes.DType
		dims [5][]int
		back bool
		want string
	}{
		{"double", dtypes.Float64, [5][]int{{2, 3, 8}, {8}, {2, 8}, {3, 2}, {3, 2}}, false, "want float32 [length n 4·units]"},
		{"rank", dtypes.Float32, [5][]int{{6, 8}, {8}, {2, 8}, {3, 2}, {3, 2}}, false, "want float32 [length n 4·units]"},
		{"gates", dtypes.Float32, [5][]int{{2, 3, 6}, {6}, {2, 6}, {3, 2}, {3, 2}}, false, "want float32 [length n 4·units]"},
		{"biases", dtypes.Float32, [5][]int{{2, 3, 8}, {7}, {2, 8}, {3, 2}, {3, 2}}, false, "biases (Float32)[7]"},
		{"recurrent", dtypes.Float32, [5][]int{{2, 3, 8}, {8}, {8, 2}, {3, 2}, {3, 2}}, false, "recurrent (Float32)[8, 2]"},
		{"cells", dtypes.Float32, [5][]int{{2, 3, 8}, {8}, {2, 8}, {3, 2}, {2, 3}}, false, "c0 (Float32)[2, 3]"},
		{"double back", dtypes.Float64, [5][]int{{2, 3, 8}, {2, 8}, {3, 2}, {2, 3, 2}, {2, 3, 2}}, true, "want float32 [length n 4·units]"},
		{"gradient back", dtypes.Float32, [5][]int{{2, 3, 8}, {2, 8}, {3, 2}, {2, 3, 2}, {3, 2}}, true, "v (Float32)[3, 2]"},
		{"recurrent back", dtypes.Float32, [5][]int{{2, 3, 8}, {8, 8}, {3, 2}, {2, 3, 2}, {2, 3, 2}}, true, "recurrent (Float32)[8, 8]"},
	} {
		d := newDraft(t)
		f := d.main()
		var in [5]compute.Value
		for i, dims := range tt.dims {
			in[i] = d.param(f, tt.kind, dims...)
		}
		var err error
		if tt.back {
			_, err = f.LSTMBack(in[0], in[1], in[2], in[3], in[4])
		} else {
			_, err = f.LSTM(in[0], in[1], in[2], in[3], in[4])
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestLSTMRefusesAtRun holds that operands which do not fit together are an error of the run.
func TestLSTMRefusesAtRun(t *testing.T) { vectors(t, testLSTMRefusesAtRun) }

func testLSTMRefusesAtRun(t *testing.T, b *backend) {
	ahead, back := [][]int{{2, 3, 8}, {8}, {2, 8}, {3, 2}, {3, 2}}, [][]int{{2, 3, 8}, {2, 8}, {3, 2}, {2, 3, 2}, {2, 3, 2}}
	with := func(dims [][]int, i int, other ...int) [][]int {
		dims = slices.Clone(dims)
		dims[i] = other
		return dims
	}
	h, z := []int{2, 3, 2}, []int{2, 3, 8}
	for _, tt := range []struct {
		name    string
		in, out [][]int
		scratch int
	}{
		{"good", ahead, [][]int{h, h, z}, 4096},
		{"good back", back, [][]int{z}, 4096},
		{"z", with(ahead, 0, 2, 3, 6), [][]int{h, h, z}, 4096},
		{"biases", with(ahead, 1, 4), [][]int{h, h, z}, 4096},
		{"recurrent", with(ahead, 2, 8, 2), [][]int{h, h, z}, 4096},
		{"outputs", with(ahead, 3, 2, 2), [][]int{h, h, z}, 4096},
		{"result", ahead, [][]int{h, z, z}, 4096},
		{"scratch", ahead, [][]int{h, h, z}, 100},
		{"three operands", ahead[:3], [][]int{h, h, z}, 4096},
		{"gradient", with(back, 4, 2, 3, 3), [][]int{z}, 4096},
		{"result back", back, [][]int{h}, 4096},
		{"scratch back", back, [][]int{z}, 100},
	} {
		d := newDraft(t)
		f := d.main()
		var in []compute.Value
		for _, dims := range tt.in {
			in = append(in, d.num(f, make([]float32, shapes.Make(dtypes.Float32, dims...).Size()), dims...))
		}
		var out []shapes.Shape
		for _, dims := range append(tt.out, []int{tt.scratch}) {
			out = append(out, shapes.Make(dtypes.Float32, dims...))
		}
		program, err := b.client.Compile(d.program(d.vs(f.CustomCall(lstm.Target+b.bits, in, out, hlo.CallConfig{}))[0]).Text(nil), pjrt.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		result := make([]pjrt.Buffer, 1)
		err = program.Execute(nil, result, nil, nil, pjrt.Wait, nil)
		if strings.HasPrefix(tt.name, "good") {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			} else if err := b.client.Free(result[0]); err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "an LSTM: shapes disagree") {
			t.Errorf("%s: got %v, want that shapes disagree", tt.name, err)
		}
		program.Close()
	}
}

// once runs a program of float32 arrays, with handlers of b.bits.
func (b *backend) once(t *testing.T, p *hlo.Program, in ...[]float32) [][]float32 {
	t.Helper()
	text := bytes.ReplaceAll(p.Text(nil), []byte(lstm.Target), []byte(lstm.Target+b.bits))
	program, err := b.client.Compile(text, pjrt.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	var args []compute.Buffer
	for i, v := range in {
		u, err := b.BufferFromFlatData(0, v, p.Inputs[i])
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, u)
	}
	results, err := (&executable{b, p, program}).Execute(args, make([]bool, len(args)), 0)
	if err != nil {
		t.Fatal(err)
	}
	all := make([][]float32, len(results))
	for i, u := range results {
		all[i] = make([]float32, p.Outputs[i].Size())
		if err := u.(*buffer).ToFlatData(all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
