package hlo_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"

	"gaiden/lib/engine/hlo"
)

// TestLiterals looks at the text of constants.
func TestLiterals(t *testing.T) {
	tests := []struct {
		flat any
		dims []int
		want string
	}{
		{[]float32{1}, nil, "dense<1.0> : tensor<f32>"},
		{[]float32{0.1, -2.5e-9}, []int{2}, "dense<[0.1, -2.5e-09]> : tensor<2xf32>"},
		{[]float32{1e30}, nil, "dense<1.0e+30> : tensor<f32>"},
		{[]float32{float32(math.NaN())}, nil, "dense<0x7FC00000> : tensor<f32>"},
		{[]float32{float32(math.Copysign(0, -1))}, nil, "dense<0x80000000> : tensor<f32>"},
		{[]float64{math.Inf(-1)}, nil, "dense<0xFFF0000000000000> : tensor<f64>"},
		{[]float64{math.Pi}, nil, "dense<3.141592653589793e+00> : tensor<f64>"},
		{[]bfloat16.BFloat16{0x3F80, 0x7F80}, []int{2}, "dense<[1.0, 0x7F80]> : tensor<2xbf16>"},
		{[]float16.Float16{0x3C00}, nil, "dense<1.0> : tensor<f16>"},
		{[]int32{1, 2, 3, 4}, []int{2, 2}, "dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>"},
		{[]int{7, 7, 7}, []int{3}, "dense<7> : tensor<3xi64>"},
		{[]uint64{math.MaxUint64}, nil, "dense<18446744073709551615> : tensor<ui64>"},
		{[]bool{true, false}, []int{1, 2}, "dense<[[true, false]]> : tensor<1x2xi1>"},
		{[]complex64{complex(1, -2)}, nil, "dense<(1.0, -2.0)> : tensor<complex<f32>>"},
		{[]float32{}, []int{0, 2}, "dense<> : tensor<0x2xf32>"},
		{func() []int8 {
			s := make([]int8, 17)
			s[0] = -1
			return s
		}(), []int{17}, `dense<"0xFF00000000000000000000000000000000"> : tensor<17xi8>`},
	}
	for _, tt := range tests {
		d := newDraft(t)
		f := d.main()
		got := string(d.program(d.num(f, tt.flat, tt.dims...)).Text(nil))
		if !strings.Contains(got, "stablehlo.constant "+tt.want+"\n") {
			t.Errorf("%T%v: got\n%s\nwant %s in it", tt.flat, tt.flat, got, tt.want)
		}
	}
}

// TestLiteralsArrive sends constants through the compiler and wants the very
// same bits back: all sizes of list and hexadecimal form, all types.
func TestLiteralsArrive(t *testing.T) {
	b := newBackend(t)
	hard := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1.0 / 3, math.Pi, 1e-45, 1e-40, 3.4e38, math.Inf(1), math.Inf(-1),
		math.NaN(), 123456789, 5e-324, 16777217}
	flats := []any{
		[]bool{true, false, true}, []int8{-128, 127, 3}, []int16{-32768, 5, 6}, []int32{math.MinInt32, 0, math.MaxInt32},
		[]int64{math.MinInt64, 1, math.MaxInt64}, []uint8{0, 255, 7}, []uint16{65535, 1, 2}, []uint32{math.MaxUint32, 1, 0},
		[]uint64{math.MaxUint64, 1, 0}, []complex64{complex(0.1, float32(math.Inf(1))), 1, 2}, []complex128{complex(0.1, -1e300), 1, 2},
	}
	for _, n := range []int{1, 3, len(hard), 100} {
		f64, f32 := make([]float64, n), make([]float32, n)
		f16, bf16 := make([]float16.Float16, n), make([]bfloat16.BFloat16, n)
		ints := make([]int32, n)
		for i := range n {
			x := hard[i%len(hard)]
			f64[i], f32[i], ints[i] = x, float32(x), int32(i*i)
			f16[i], bf16[i] = float16.FromFloat32(float32(x)), bfloat16.FromFloat32(float32(x))
		}
		flats = append(flats, f64, f32, f16, bf16, ints)
	}
	d := &draft{t, b.Builder("constants").(*hlo.Builder), map[compute.Function]int{}}
	f := d.main()
	var outputs []compute.Value
	for _, flat := range flats {
		outputs = append(outputs, d.num(f, flat, reflect.ValueOf(flat).Len()))
	}
	d.ok(f.Return(outputs, nil))
	e, err := d.b.Compile()
	d.ok(err)
	out, err := e.Execute(nil, nil, 0)
	d.ok(err)
	for i, flat := range flats {
		want := reflect.ValueOf(flat)
		got := reflect.MakeSlice(want.Type(), want.Len(), want.Len())
		d.ok(out[i].ToFlatData(got.Interface()))
		if g, w := fmt.Sprintf("%x", raw(got.Interface())), fmt.Sprintf("%x", raw(flat)); g != w {
			t.Errorf("%T: got %v, want %v", flat, got, want)
		}
	}
}
