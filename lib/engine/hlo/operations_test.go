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
