package hlo_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
)

// TestWrittenNorms compares batch norms that are written out with StableHLO's own
// op and with that in float64, on numbers of mean 3 and deviation 2. A gradient of
// scale is a small sum of large numbers; with bfloat16 the mean that is given to
// the gradient is rounded, too.
func TestWrittenNorms(t *testing.T) {
	b := newBackend(t)
	for _, tt := range []struct {
		dtype     dtypes.DType
		dims      []int
		axis      int
		tolerance float64 // of a result, relative to its greatest element
		rounding  float64 // the same, from float64
	}{
		{dtypes.Float32, []int{256, 2, 2, 5}, 3, 1e-5, 1e-5}, // sums in 8 parts
		{dtypes.Float32, []int{331, 3}, 1, 1e-5, 3e-5},       // a prime number of rows
		{dtypes.Float32, []int{7, 3, 4}, 1, 1e-5, 1e-5},      // features in the middle
		{dtypes.Float32, []int{1, 6}, 1, 1e-5, 1e-5},         // one row: variance 0
		{dtypes.Float32, []int{6}, 0, 1e-5, 1e-5},            // nothing to add up
		{dtypes.Float64, []int{512, 4}, 1, 1e-12, 1e-12},
		{dtypes.BFloat16, []int{512, 4}, 1, 1e-2, 0.1},
	} {
		t.Run(fmt.Sprint(tt.dtype, tt.dims, tt.axis), func(t *testing.T) {
			results := func(write bool, dtype dtypes.DType) [][]float64 {
				d := newDraft(t)
				f := d.main()
				d.b.WriteNorms = write
				var in []compute.Value
				for range 2 {
					in = append(in, d.param(f, dtype, tt.dims...))
				}
				for range 2 {
					in = append(in, d.param(f, dtype, tt.dims[tt.axis]))
				}
				y, mean, variance, err := f.BatchNormForTraining(in[0], in[2], in[3], 1e-3, tt.axis)
				d.ok(err)
				gx, gScale, gOffset, err := f.BatchNormGradient(in[0], in[2], mean, variance, in[1], 1e-3, tt.axis)
				d.ok(err)
				wide := []compute.Value{y, mean, variance, gx, gScale, gOffset}
				for i, v := range wide {
					wide[i] = d.v(f.ConvertDType(v, dtypes.Float64))
				}
				p := d.program(wide...)
				r := rand.New(rand.NewPCG(1, 2))
				var values []compute.Buffer
				for _, s := range p.Inputs {
					values = append(values, b.numbers(t, s, tt.dtype, r))
				}
				var out [][]float64
				for i, u := range b.execute(t, p, values) {
					flat := make([]float64, p.Outputs[i].Size())
					if err := u.ToFlatData(flat); err != nil {
						t.Fatal(err)
					}
					out = append(out, flat)
				}
				return out
			}
			written, op, exact := results(true, tt.dtype), results(false, tt.dtype), results(false, dtypes.Float64)
			for i, name := range []string{"y", "mean", "variance", "gradient of x", "of scale", "of offset"} {
				for _, other := range []struct {
					name      string
					values    []float64
					tolerance float64
				}{{"StableHLO's op", op[i], tt.tolerance}, {"float64", exact[i], tt.rounding}} {
					most, scale := 0.0, 0.0
					for k, want := range other.values {
						most, scale = max(most, math.Abs(written[i][k]-want)), max(scale, math.Abs(want))
					}
					if most > other.tolerance*max(1, scale) || math.IsNaN(most) {
						t.Errorf("%s: got %g from %s, want at most %g of %g", name, most, other.name, other.tolerance, scale)
					}
				}
			}
		})
	}
}

// numbers is an array of mean 3 and deviation 2, rounded as kind is.
func (b *backend) numbers(t *testing.T, s shapes.Shape, kind dtypes.DType, r *rand.Rand) compute.Buffer {
	t.Helper()
	flat := make([]float64, s.Size())
	for i := range flat {
		flat[i] = float64(float32(3 + 2*r.NormFloat64()))
		if kind == dtypes.BFloat16 {
			flat[i] = bfloat16.FromFloat32(float32(flat[i])).Float64()
		}
	}
	var data any = flat
	switch s.DType {
	case dtypes.Float32:
		narrow := make([]float32, len(flat))
		for i, x := range flat {
			narrow[i] = float32(x)
		}
		data = narrow
	case dtypes.BFloat16:
		narrow := make([]bfloat16.BFloat16, len(flat))
		for i, x := range flat {
			narrow[i] = bfloat16.FromFloat32(float32(x))
		}
		data = narrow
	}
	u, err := b.BufferFromFlatData(0, data, s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
