package hlo_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/lstm"
	"gaiden/lib/engine/pjrt"
)

// products runs a test for each kind of vectors that packages gemm and lstm have handlers for,
// whose targets have its bits behind their names.
func products(t *testing.T, test func(t *testing.T, b *backend)) {
	t.Helper()
	b := newBackend(t)
	if len(gemm.Handlers()) == 0 {
		t.Skip("needs a processor with AVX2, for which package gemm is: run it on one (grep avx2 /proc/cpuinfo)")
	}
	for _, h := range gemm.Handlers() {
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

// product multiplies by package gemm: x is [m k], or [k m] if ta is 1, y likewise.
type product struct{ m, n, k, ta, tb, threads int }

func (p product) dims() (x, y [2]int) {
	x, y = [2]int{p.m, p.k}, [2]int{p.k, p.n}
	if p.ta == 1 {
		x = [2]int{p.k, p.m}
	}
	if p.tb == 1 {
		y = [2]int{p.n, p.k}
	}
	return x, y
}

// compile is the program of a product.
func (p product) compile(t testing.TB, b *backend) *pjrt.Program {
	t.Helper()
	d := newDraft(t)
	f := d.main()
	x, y := p.dims()
	out := d.vs(f.CustomCall(gemm.Target+b.bits, []compute.Value{d.param(f, dtypes.Float32, x[:]...), d.param(f, dtypes.Float32, y[:]...)},
		[]shapes.Shape{shapes.Make(dtypes.Float32, p.m, p.n), shapes.Make(dtypes.Float32, gemm.Scratch(p.m, p.k, p.threads))},
		hlo.CallConfig{Backend: map[string]any{"ta": p.ta, "tb": p.tb}}))
	program, err := b.client.Compile(d.program(out[0]).Text(nil), pjrt.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// run multiplies once.
func (p product) run(b *backend, program *pjrt.Program, x, y []float32) ([]float32, error) {
	dx, dy := p.dims()
	device := b.client.Devices()[0]
	hx, err := b.client.Upload(raw(x), pjrt.DType(dtypes.Float32), dx[:], device)
	if err != nil {
		return nil, err
	}
	hy, err := b.client.Upload(raw(y), pjrt.DType(dtypes.Float32), dy[:], device)
	if err != nil {
		return nil, err
	}
	out := make([]pjrt.Buffer, 1)
	if err := program.Execute([]pjrt.Buffer{hx, hy}, out, nil, nil, pjrt.Wait, nil); err != nil {
		return nil, err
	}
	got := make([]float32, p.m*p.n)
	err = b.client.Download(out[0], raw(got))
	for _, h := range []pjrt.Buffer{hx, hy, out[0]} {
		if e := b.client.Free(h); err == nil {
			err = e
		}
	}
	return got, err
}

// TestProduct compares products of many shapes with sums in float64: parts of blocks in
// each direction, several depths, one thread and some. The number of threads changes
// no bit.
func TestProduct(t *testing.T) { products(t, testProduct) }

func testProduct(t *testing.T, b *backend) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, p := range []product{
		{m: 1, n: 1, k: 1}, {m: 12, n: 32, k: 512}, {m: 13, n: 33, k: 513}, {m: 11, n: 31, k: 3}, {m: 5, n: 600, k: 7},
		{m: 100, n: 77, k: 133}, {m: 200, n: 1100, k: 50}, {m: 31, n: 10, k: 1000}, {m: 300, n: 300, k: 300}, {m: 256, n: 1024, k: 800}, {m: 2048, n: 32, k: 100}, {m: 101, n: 333, k: 1100},
	} {
		for kind := range 4 {
			p.ta, p.tb = kind%2, kind/2
			t.Run(fmt.Sprintf("%dx%dx%d/%d%d", p.m, p.n, p.k, p.ta, p.tb), func(t *testing.T) {
				dx, dy := p.dims()
				x, y := matrix(r, dx[0], dx[1]), matrix(r, dy[0], dy[1])
				var first []float32
				for _, p.threads = range []int{1, 2, 5} {
					program := p.compile(t, b)
					got, err := p.run(b, program, x, y)
					program.Close()
					if err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = got
						p.check(t, x, y, got)
					}
					if !slices.Equal(got, first) {
						t.Errorf("%d threads: other numbers than one", p.threads)
					}
				}
			})
		}
	}
}

// check compares with sums in float64. Of k products each rounding moves the sum by at
// most half of 2⁻²³ of what it is.
func (p product) check(t *testing.T, x, y, got []float32) {
	t.Helper()
	for i := range p.m {
		for j := range p.n {
			want, size := 0.0, 0.0
			for l := range p.k {
				a, b := x[i*p.k+l], float32(0)
				if p.ta == 1 {
					a = x[l*p.m+i]
				}
				if b = y[l*p.n+j]; p.tb == 1 {
					b = y[j*p.k+l]
				}
				want += float64(a) * float64(b)
				size += math.Abs(float64(a) * float64(b))
			}
			if e := math.Abs(float64(got[i*p.n+j]) - want); !(e <= size*float64(p.k+2)*0x1p-24) {
				t.Fatalf("[%d %d]: got %v, want %v", i, j, got[i*p.n+j], want)
			}
		}
	}
}

// TestProductSpecial holds that NaN and infinities stay in their rows and columns, in
// the parts of blocks, too.
func TestProductSpecial(t *testing.T) { products(t, testProductSpecial) }

func testProductSpecial(t *testing.T, b *backend) {
	p := product{m: 30, n: 40, k: 20, threads: 1}
	x, y := make([]float32, p.m*p.k), make([]float32, p.k*p.n)
	for i := range y {
		y[i] = 1
	}
	x[25*p.k+3], x[7*p.k+19], y[0*p.n+39] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
	x[2*p.k] = 1
	program := p.compile(t, b)
	defer program.Close()
	got, err := p.run(b, program, x, y)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.m {
		for j := range p.n {
			g, want := float64(got[i*p.n+j]), 0.0
			for l := range p.k {
				want += float64(x[i*p.k+l]) * float64(y[l*p.n+j])
			}
			if g != want && !(math.IsNaN(g) && math.IsNaN(want)) {
				t.Errorf("[%d %d]: got %v, want %v", i, j, g, want)
			}
		}
	}
}

// TestProductsAtOnce runs one program from many goroutines: more products than the plugin
// has threads wait for none of each other's.
func TestProductsAtOnce(t *testing.T) { products(t, testProductsAtOnce) }

func testProductsAtOnce(t *testing.T, b *backend) {
	p := product{m: 200, n: 300, k: 250, threads: 4}
	r := rand.New(rand.NewPCG(3, 4))
	x, y := matrix(r, p.m, p.k), matrix(r, p.k, p.n)
	program := p.compile(t, b)
	defer program.Close()
	want, err := p.run(b, program, x, y)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				if got, err := p.run(b, program, x, y); err != nil || !slices.Equal(got, want) {
					t.Errorf("got other numbers than alone, error %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestProductRefuses holds that shapes that do not fit together are an error of the run.
func TestProductRefuses(t *testing.T) { products(t, testProductRefuses) }

func testProductRefuses(t *testing.T, b *backend) {
	for _, wrong := range []struct {
		x, y, out [2]int
		scratch   int
	}{
		{[2]int{4, 5}, [2]int{6, 7}, [2]int{4, 7}, 1 << 20},
		{[2]int{4, 5}, [2]int{5, 7}, [2]int{4, 8}, 1 << 20},
		{[2]int{4, 5}, [2]int{5, 7}, [2]int{5, 7}, 1 << 20},
		{[2]int{4, 5}, [2]int{5, 7}, [2]int{4, 7}, 100},
	} {
		d := newDraft(t)
		f := d.main()
		out := d.vs(f.CustomCall(gemm.Target+b.bits, []compute.Value{d.num(f, make([]float32, wrong.x[0]*wrong.x[1]), wrong.x[:]...), d.num(f, make([]float32, wrong.y[0]*wrong.y[1]), wrong.y[:]...)},
			[]shapes.Shape{shapes.Make(dtypes.Float32, wrong.out[:]...), shapes.Make(dtypes.Float32, wrong.scratch)}, hlo.CallConfig{Backend: map[string]any{"ta": 0, "tb": 0}}))
		program, err := b.client.Compile(d.program(out[0]).Text(nil), pjrt.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err = program.Execute(nil, make([]pjrt.Buffer, 1), nil, nil, pjrt.Wait, nil); err == nil || !strings.Contains(err.Error(), "product: shapes disagree") {
			t.Errorf("%+v: got %v, want that shapes disagree", wrong, err)
		}
		program.Close()
	}
}

// TestOwnProducts holds which products of a program are package gemm's.
func TestOwnProducts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		threads int
		dtype   dtypes.DType
		x, y    []int
		cx, cy  int
		own     bool
	}{
		{"large", 2, dtypes.Float32, []int{1024, 1024}, []int{1024, 1000}, 1, 0, true},
		{"across", 2, dtypes.Float32, []int{1024, 1024}, []int{1000, 1024}, 0, 1, true},
		{"none to be had", 0, dtypes.Float32, []int{1024, 1024}, []int{1024, 1000}, 1, 0, false},
		{"double", 2, dtypes.Float64, []int{1024, 1024}, []int{1024, 1000}, 1, 0, false},
		{"small", 2, dtypes.Float32, []int{64, 128}, []int{128, 64}, 1, 0, false},
		{"narrow", 2, dtypes.Float32, []int{4096, 4096}, []int{4096, 10}, 1, 0, false},
		{"a vector", 2, dtypes.Float32, []int{4096, 4096}, []int{4096}, 1, 0, false},
	} {
		d := newDraft(t)
		d.b.Products = tt.threads
		f := d.main()
		v := d.v(f.DotGeneral(d.param(f, tt.dtype, tt.x...), []int{tt.cx}, nil, d.param(f, tt.dtype, tt.y...), []int{tt.cy}, nil, compute.DotGeneralConfig{}))
		text := string(d.program(v).Text(nil))
		if got := strings.Contains(text, gemm.Target); got != tt.own || got == strings.Contains(text, "dot_general") {
			t.Errorf("%s: got %v, want %v:\n%s", tt.name, got, tt.own, text)
		}
		if want := fmt.Sprintf("ta = %d : i64, tb = %d : i64", 1-tt.cx, tt.cy); tt.own && !strings.Contains(text, want) {
			t.Errorf("%s: want %q in\n%s", tt.name, want, text)
		}
	}
}

// once runs a program of float32 arrays, with handlers of b.bits.
func (b *backend) once(t *testing.T, p *hlo.Program, in ...[]float32) [][]float32 {
	t.Helper()
	text := p.Text(nil)
	for _, name := range []string{gemm.Target, lstm.Target} {
		text = bytes.ReplaceAll(text, []byte(name), []byte(name+b.bits))
	}
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
