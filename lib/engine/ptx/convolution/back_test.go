package convolution

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes/bfloat16"

	"gaiden/lib/engine/ptx/emulate"
	"gaiden/lib/engine/triton/kernels"
)

// factors are what the kernel multiplies of x: with digits of Float16, below the largest by a
// power of two, or of BFloat16.
func factors(x []float32, brain bool) []float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	_, e := math.Frexp(most)
	least := math.Ldexp(1, e-15-24) // what is this apart has other digits, however small
	l := make([]float64, len(x))
	for i, v := range x {
		if l[i] = float64(v); v == 0 {
			continue
		}
		_, e := math.Frexp(float64(v))
		step := max(math.Ldexp(1, e-11), least)
		if brain {
			step = math.Ldexp(1, e-8)
		}
		l[i] = math.RoundToEven(float64(v)/step) * step
	}
	return l
}

// back is the same in float64, one number after the other.
func back(k Back, x, g, w []float32, winner []uint8) (d, parts []float64) {
	height, width := k.Result()
	size := k.Size * k.Size * k.In
	d, parts = make([]float64, len(x)), make([]float64, k.Batch*(size+1)*k.Out)
	images, wf := len(x)/k.Batch, factors(w, k.Brain)
	for n := range k.Batch {
		xf, gf := factors(x[n*images:(n+1)*images], k.Brain), factors(g[n*height*width*k.Out:(n+1)*height*width*k.Out], k.Brain)
		part := parts[n*(size+1)*k.Out:]
		for place := range height * width {
			for o := range k.Out {
				at := place*k.Out + o
				y, z := place/width, place%width
				if k.Pool {
					q := int(winner[n*height*width*k.Out+at])
					y, z = 2*y+q/2, 2*z+q%2
				}
				part[size*k.Out+o] += float64(g[n*height*width*k.Out+at])
				for tap := range k.Size * k.Size {
					i, j := y+tap/k.Size-k.Pad, z+tap%k.Size-k.Pad
					if i < 0 || j < 0 || i >= k.Height || j >= k.Width {
						continue
					}
					for c := range k.In {
						pixel := (i*k.Width+j)*k.In + c
						part[(tap*k.In+c)*k.Out+o] += xf[pixel] * gf[at]
						d[n*images+pixel] += wf[(tap*k.In+c)*k.Out+o] * gf[at]
					}
				}
			}
		}
	}
	for i, v := range x {
		switch v := float64(v); k.Act {
		case kernels.ReLU:
			if v <= 0 {
				d[i] = 0
			}
		case kernels.Sigmoid:
			d[i] *= v * (1 - v)
		case kernels.Tanh:
			d[i] *= 1 - v*v
		}
	}
	return d, parts
}

// forms are sizes, and what is special about them: several rows of warps, Keras's second
// convolution, LeNet's, odd images with padding, results of few channels, kernels of 1×1.
var forms = []form{
	{kernels.Geometry{Batch: 2, Height: 8, Width: 10, In: 16, Out: 16, Size: 3, Pool: true}, kernels.ReLU, false, 0},
	{kernels.Geometry{Batch: 1, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true}, kernels.ReLU, false, 0},
	{kernels.Geometry{Batch: 1, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true}, kernels.ReLU, true, 0},
	{kernels.Geometry{Batch: 3, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true}, kernels.Sigmoid, false, 0},
	{kernels.Geometry{Batch: 2, Height: 7, Width: 9, In: 10, Out: 12, Size: 3, Pad: 1}, kernels.Tanh, false, 0},
	{kernels.Geometry{Batch: 2, Height: 9, Width: 7, In: 6, Out: 24, Size: 5, Pad: 2, Pool: true}, kernels.Sigmoid, true, 0},
	{kernels.Geometry{Batch: 2, Height: 4, Width: 5, In: 24, Out: 4, Size: 2, Pad: 1}, kernels.Identity, false, 0},
	{kernels.Geometry{Batch: 2, Height: 3, Width: 3, In: 2, Out: 8, Size: 1}, kernels.ReLU, false, 0},
}

// TestBack holds that the kernel is both gradients of a convolution, with each number of
// warps that is tried.
func TestBack(t *testing.T) {
	tried(t, func(f form) Back { return Back(f) }, func(t *testing.T, k Back) { checkBack(t, k, 1e-6) })
}

// TestTiny holds that gradients have scales down to where float32 ends.
func TestTiny(t *testing.T) { checkBack(t, Back(forms[0]), 1e-36) }

func checkBack(t *testing.T, k Back, size float64) {
	r := rand.New(rand.NewPCG(1, 2))
	height, width := k.Result()
	x, g := numbers(r, k.Batch*k.Height*k.Width*k.In, 7, k.Brain), numbers(r, k.Batch*height*width*k.Out, size, k.Brain)
	w := numbers(r, k.Size*k.Size*k.In*k.Out, 0.1, false)
	for i := 0; i < len(x); i += 50 {
		x[i] = 0x1p-100 // which is above 0
	}
	winner := make([]uint8, len(g))
	for i := range winner {
		winner[i] = uint8(r.IntN(4))
	}
	in := []any{array(x, k.Brain), w, array(g, k.Brain)}
	if k.Pool {
		in = append(in, winner)
	}
	out, err := emulate.Run(k.Kernel(), in...)
	if err != nil {
		t.Fatal(err)
	}
	d, parts := back(k, x, g, w, winner)
	limit := 2e-6
	near(t, "parts", out[1].([]float32), parts, limit)
	if k.Brain {
		limit = 4e-3
	}
	near(t, "d", floats(out[0]), d, limit)
}

// numbers are n of a size.
func numbers(r *rand.Rand, n int, size float64, brain bool) []float32 {
	l := make([]float32, n)
	for i := range l {
		if l[i] = float32(r.NormFloat64() * size); brain {
			l[i] = bfloat16.FromFloat32(l[i]).Float32()
		}
	}
	return l
}

// array is numbers as the kernel has them, and floats the opposite.
func array(x []float32, brain bool) any {
	if !brain {
		return x
	}
	l := make([]bfloat16.BFloat16, len(x))
	for i, v := range x {
		l[i] = bfloat16.FromFloat32(v)
	}
	return l
}

func floats(x any) (l []float32) {
	if f, is := x.([]float32); is {
		return f
	}
	for _, v := range x.([]bfloat16.BFloat16) {
		l = append(l, v.Float32())
	}
	return l
}

// near compares with what the largest number is.
func near(t *testing.T, what string, got []float32, want []float64, limit float64) {
	most := 0.0
	for _, v := range want {
		most = max(most, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(float64(got[i])-v) <= limit*most) {
			t.Fatalf("%s[%d]: got %v, want %v; the largest is %v", what, i, got[i], v, most)
		}
	}
}
