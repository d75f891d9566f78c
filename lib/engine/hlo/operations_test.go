package hlo_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
)

// TestOperations runs programs as a whole and op by op: both give the same.
func TestOperations(t *testing.T) {
	b := newBackend(t)
	for _, tt := range goldens {
		if tt.cuda || tt.joint || tt.name == "replicas" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			p := tt.build(newDraft(t))
			var values []compute.Buffer
			for i, s := range p.Inputs {
				values = append(values, b.filled(t, s, i))
			}
			whole := b.execute(t, p, values)
			operations, outputs := p.Operations()
			if got, want := p.Size(), len(operations); got != want {
				t.Errorf("got %d ops, want %d", got, want)
			}
			var sum hlo.Cost
			for _, op := range operations {
				in := make([]compute.Buffer, len(op.Inputs))
				for i, n := range op.Inputs {
					in[i] = values[n]
				}
				if op.First != len(values) {
					t.Fatalf("%s: its first result is number %d, want %d", op.Name, op.First, len(values))
				}
				values = append(values, b.execute(t, op.Program, in)...)
				c := op.Program.Cost()
				sum.FLOPs, sum.Bytes = sum.FLOPs+c.FLOPs, sum.Bytes+c.Bytes
			}
			for i, n := range outputs {
				if n < 0 {
					continue
				}
				if got, want := contents(t, values[n]), contents(t, whole[i]); !bytes.Equal(got, want) {
					t.Errorf("result %d: op by op %x, want %x as from the whole", i, got, want)
				}
			}
			if c := p.Cost(); sum.FLOPs != c.FLOPs || sum.Bytes != c.Bytes {
				t.Errorf("the parts have %g FLOPs and %g bytes, the whole %g and %g", sum.FLOPs, sum.Bytes, c.FLOPs, c.Bytes)
			}
		})
	}
}

func TestOperationsAreNamed(t *testing.T) {
	d := newDraft(t)
	f := d.main()
	x := d.param(f, dtypes.Float32, 4)
	d.b.SetLabel("a/forward")
	y := d.v(f.Exp(x))
	z := d.v(f.Mul(y, y))
	d.b.SetLabel("b/forward")
	p := d.program(d.v(f.LessThan(z, y)), d.num(f, []float32{1}))
	operations, outputs := p.Operations()
	var got []string
	for _, op := range operations {
		got = append(got, op.Label+" "+op.Name)
	}
	if got, want := strings.Join(got, ", "), "a/forward exponential, a/forward multiply, b/forward compare"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := operations[1].Inputs, []int{1}; !reflect.DeepEqual(got, want) {
		t.Errorf("the product takes %v, want %v once", got, want)
	}
	if want := []int{3, -1}; !reflect.DeepEqual(outputs, want) {
		t.Errorf("got outputs %v, want %v", outputs, want)
	}

	d = newDraft(t)
	d.ok(d.b.DistributedSPMD(2))
	f = d.main()
	p = d.program(d.v(f.Exp(d.param(f, dtypes.Float32))))
	if got := p.Size(); got == 0 {
		t.Error("a program for two devices has 0 ops, want some")
	}
	if operations, _ := p.Operations(); operations != nil {
		t.Errorf("a program of two replicas: got %v, want none", operations)
	}
}

// filled is an array of small numbers.
func (b *backend) filled(t *testing.T, s shapes.Shape, seed int) compute.Buffer {
	t.Helper()
	flat := reflect.MakeSlice(reflect.SliceOf(s.DType.GoType()), s.Size(), s.Size())
	for i := range s.Size() {
		n := (i*7 + seed) % 5
		switch v := flat.Index(i); v.Kind() {
		case reflect.Float32, reflect.Float64:
			v.SetFloat(float64(n) / 4)
		case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			if s.DType != dtypes.BFloat16 && s.DType != dtypes.Float16 {
				v.SetUint(uint64(n))
			}
		case reflect.Bool:
			v.SetBool(n > 2)
		}
	}
	u, err := b.BufferFromFlatData(0, flat.Interface(), s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (b *backend) execute(t *testing.T, p *hlo.Program, in []compute.Buffer) []compute.Buffer {
	t.Helper()
	program, err := b.client.Compile(p.Text(nil), pjrt.CompileOptions{})
	if err != nil {
		t.Fatalf("%s: %v\n%s", p.Name, err, p.Text(nil))
	}
	e := &executable{b, p, program}
	defer e.Finalize()
	out, err := e.Execute(in, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func contents(t *testing.T, u compute.Buffer) []byte {
	t.Helper()
	s, err := u.Shape()
	if err != nil {
		t.Fatal(err)
	}
	flat := reflect.MakeSlice(reflect.SliceOf(s.DType.GoType()), s.Size(), s.Size()).Interface()
	if err := u.(*buffer).ToFlatData(flat); err != nil {
		t.Fatal(err)
	}
	return raw(flat)
}

// TestNarrowProducts holds that a float32 product of what was converted from a type of 16
// bits is one of that type, with the same numbers, and that others stay as they are: of
// two types, of one such operand only, and of sums.
func TestNarrowProducts(t *testing.T) {
	b := newBackend(t)
	product := func(from [2]dtypes.DType, wide func(d *draft, f *hlo.Function, x compute.Value) compute.Value) *hlo.Program {
		d := newDraft(t)
		f := d.main()
		x, y := wide(d, f, d.param(f, from[0], 5, 7)), wide(d, f, d.param(f, from[1], 7, 3))
		return d.program(d.v(f.DotGeneral(x, []int{1}, nil, y, []int{0}, nil, compute.DotGeneralConfig{})))
	}
	converted := func(d *draft, f *hlo.Function, x compute.Value) compute.Value {
		return d.v(f.ConvertDType(x, dtypes.Float32))
	}
	doubled := func(d *draft, f *hlo.Function, x compute.Value) compute.Value {
		x = converted(d, f, x)
		return d.v(f.Add(x, x))
	}
	for _, tt := range []struct {
		from [2]dtypes.DType
		wide func(d *draft, f *hlo.Function, x compute.Value) compute.Value
		want string
	}{
		{[2]dtypes.DType{dtypes.BFloat16, dtypes.BFloat16}, converted, "(tensor<5x7xbf16>, tensor<7x3xbf16>) -> tensor<5x3xf32>"},
		{[2]dtypes.DType{dtypes.Float16, dtypes.Float16}, converted, "(tensor<5x7xf16>, tensor<7x3xf16>) -> tensor<5x3xf32>"},
		{[2]dtypes.DType{dtypes.BFloat16, dtypes.Float16}, converted, "(tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>"},
		{[2]dtypes.DType{dtypes.BFloat16, dtypes.Float32}, converted, "(tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>"},
		{[2]dtypes.DType{dtypes.Float64, dtypes.Float64}, converted, "(tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>"},
		{[2]dtypes.DType{dtypes.BFloat16, dtypes.BFloat16}, doubled, "(tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>"},
	} {
		p := product(tt.from, tt.wide)
		if text := string(p.Text(nil)); !strings.Contains(text, tt.want) {
			t.Errorf("%v: want a product %s, got\n%s", tt.from, tt.want, text)
		}
	}
	narrow := product([2]dtypes.DType{dtypes.BFloat16, dtypes.BFloat16}, converted)
	plain := product([2]dtypes.DType{dtypes.Float32, dtypes.Float32}, converted)
	var short, long []compute.Buffer
	for i, s := range narrow.Inputs {
		short = append(short, b.filled(t, s, i))
		d := newDraft(t)
		f := d.main()
		widen := d.program(d.v(f.ConvertDType(d.param(f, s.DType, s.Dimensions...), dtypes.Float32)))
		long = append(long, b.execute(t, widen, short[i:])[0])
	}
	if got, want := contents(t, b.execute(t, narrow, short)[0]), contents(t, b.execute(t, plain, long)[0]); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x as from float32", got, want)
	}
}
