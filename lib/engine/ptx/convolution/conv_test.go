package convolution

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gaiden/lib/engine/ptx/emulate"
	"gaiden/lib/engine/triton/kernels"
)

// results are those of a convolution before the activation, in float64, [batch image
// image out].
func results(k Conv, x, w, bias []float32) []float64 {
	height, width := k.Image()
	images, wf := len(x)/k.Batch, factors(w, k.Brain)
	var l []float64
	for n := range k.Batch {
		xf := factors(x[n*images:(n+1)*images], k.Brain)
		for place := range height * width {
			for o := range k.Out {
				sum := float64(bias[o])
				for tap := range k.Size * k.Size {
					i, j := place/width+tap/k.Size-k.Pad, place%width+tap%k.Size-k.Pad
					if i < 0 || j < 0 || i >= k.Height || j >= k.Width {
						continue
					}
					for c := range k.In {
						sum += xf[(i*k.Width+j)*k.In+c] * wf[(tap*k.In+c)*k.Out+o]
					}
				}
				l = append(l, sum)
			}
		}
	}
	return l
}

func act(a kernels.Act, x float64) float64 {
	switch a {
	case kernels.ReLU:
		return max(0, x)
	case kernels.Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case kernels.Tanh:
		return math.Tanh(x)
	}
	return x
}

// TestConv holds that the kernel is a convolution, with each number of warps that is tried.
func TestConv(t *testing.T) {
	tried(t, func(f form) Conv { return Conv(f) }, checkConv)
}

// tried checks the kernels of all forms with each number of warps that is tried.
func tried[K interface {
	kernels.Op
	Fits() bool
}](t *testing.T, of func(form) K, check func(*testing.T, K)) {
	for _, f := range forms {
		for _, tile := range of(f).Tiles() {
			t.Run(fmt.Sprintf("%+v %s", f, tile), func(t *testing.T) {
				t.Parallel()
				k := of(f).With(tile).(K)
				if !k.Fits() {
					t.Fatal("it does not fit")
				}
				check(t, k)
			})
		}
	}
}

var sizes = flag.Int("sizes", 30, "sizes drawn by TestDrawn")

// TestDrawn is TestConv and TestBack for sizes that are drawn.
func TestDrawn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 0; n < *sizes; {
		size := 1 + r.IntN(7)
		f := form{kernels.Geometry{Batch: 1 + r.IntN(3), Height: 1 + r.IntN(20), Width: 1 + r.IntN(20), In: 2 + 2*r.IntN(24), Out: 4 + 4*r.IntN(20),
			Size: size, Pad: r.IntN(size), Pool: r.IntN(2) == 1}, kernels.Act(r.IntN(4)), r.IntN(4) == 0, 4 * r.IntN(9)}
		there, back := Conv(f), Back(f)
		if !there.Fits() && !back.Fits() {
			continue
		}
		n++
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			t.Parallel()
			if there.Fits() {
				checkConv(t, there)
			}
			if back.Fits() {
				checkBack(t, back, 1e-6)
			}
		})
	}
}

// checkConv also holds that who has won a window is as large as the largest in it.
func checkConv(t *testing.T, k Conv) {
	r := rand.New(rand.NewPCG(1, 2))
	x, w := numbers(r, k.Batch*k.Height*k.Width*k.In, 0.7, k.Brain), numbers(r, k.Size*k.Size*k.In*k.Out, 0.1, false)
	bias := numbers(r, k.Out, 1, false)
	out, err := emulate.Run(k.Kernel(), array(x, k.Brain), w, bias)
	if err != nil {
		t.Fatal(err)
	}
	limit, slack := 2e-6, 1e-5
	if k.Brain {
		limit = 4e-3
	}
	all := results(k, x, w, bias)
	want := make([]float64, 0, len(all))
	imageHeight, imageWidth := k.Image()
	height, width := k.Result()
	for i := range k.Batch * height * width * k.Out {
		n, place, o := i/(height*width*k.Out), i/k.Out%(height*width), i%k.Out
		at := func(y, x int) float64 { return all[((n*imageHeight+y)*imageWidth+x)*k.Out+o] }
		y, x := place/width, place%width
		if !k.Pool {
			want = append(want, act(k.Act, at(y, x)))
			continue
		}
		most := max(at(2*y, 2*x), at(2*y, 2*x+1), at(2*y+1, 2*x), at(2*y+1, 2*x+1))
		want = append(want, act(k.Act, most))
		if q := int(out[1].([]uint8)[i]); q > 3 || at(2*y+q/2, 2*x+q%2) < most-slack {
			t.Fatalf("winner[%d]: got place %d, whose result is below the largest, %v", i, q, most)
		}
	}
	near(t, "y", floats(out[0]), want, limit)
}

// TestNaN holds that a NaN is not lost on the way, and that of equals the first one wins.
func TestNaN(t *testing.T) {
	k := Conv{Geometry: kernels.Geometry{Batch: 2, Height: 4, Width: 4, In: 2, Out: 4, Size: 1, Pool: true}, Act: kernels.ReLU}
	x := make([]float32, 2*16*2)
	nan := 16*2 + 2*2 // in the second image, the third pixel: place 0 of window 1
	x[nan+2] = float32(math.NaN())
	w := make([]float32, 2*4)
	for i := range w {
		w[i] = 1
	}
	out, err := emulate.Run(k.Kernel(), x, w, make([]float32, 4))
	if err != nil {
		t.Fatal(err)
	}
	y, winner := out[0].([]float32), out[1].([]uint8)
	for i, v := range y {
		if is, want := v != v, i/4 == 4+1; is != want {
			t.Errorf("y[%d]: got %v, want NaN: %t", i, v, want)
		}
		if want := uint8(0); i/4 != 4+1 && winner[i] != want || i/4 == 4+1 && winner[i] != 1 {
			t.Errorf("winner[%d]: got %d", i, winner[i])
		}
	}
}

// TestFits holds what is refused.
func TestFits(t *testing.T) {
	good := forms[1]
	for name, change := range map[string]func(f *form){
		"no images": func(f *form) { f.Batch = 0 }, "odd channels": func(f *form) { f.In = 33 }, "results of six channels": func(f *form) { f.Out = 6 },
		"too large": func(f *form) { f.Height = 100 }, "padding of a kernel": func(f *form) { f.Pad = 3 }, "smaller than a kernel": func(f *form) { f.Width = 2 },
		"more warps than a block has": func(f *form) { f.Warps = 36 }, "fewer than none": func(f *form) { f.Warps = -4 }, "too few registers": func(f *form) { f.Warps = 4 },
		"more numbers than 31 bits count": func(f *form) { f.Batch = 100_000 }, "threads of different channels": func(f *form) { f.Out = 20 },
	} {
		f := good
		change(&f)
		if Back(f).Fits() || Conv(f).Fits() {
			t.Errorf("%s: got a kernel for %+v", name, f)
		}
	}
}
