package datasets

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Synthetic returns n training images and n/6 test images of ten classes, the same
// for the same seed. Pixels are shaped [n height width channels]. Each class has a
// pattern; an image is the pattern of its class, shifted by up to a tenth of its size
// and mixed with noise, so that a net can learn it, but not from a single pixel. Use
// it for tests and for timing: accuracies on it say nothing about real images. Sizes
// below 1, or above 64 GiB in all, are an error; n may be 0.
func Synthetic(seed uint64, n, height, width, channels int) (*Images, error) {
	const classes = 10
	if n < 0 || height < 1 || width < 1 || channels < 1 || n > 1<<28 || height > 1<<14 || width > 1<<14 || channels > 1<<10 ||
		n*height*width > 1<<36/channels {
		return nil, fmt.Errorf("datasets: synthetic: cannot make %d images of %d×%d×%d: want sizes from 1 on and at most 64 GiB", n, height, width, channels)
	}
	m := &Images{
		Name:   fmt.Sprintf("synthetic %d×%d×%d (seed %d)", height, width, channels, seed),
		Height: height, Width: width, Channels: channels,
		Source: "made by package datasets",
	}
	for c := range classes {
		m.Classes = append(m.Classes, fmt.Sprintf("pattern %d", c))
	}
	patterns := make([][]byte, classes)
	for c := range patterns {
		patterns[c] = pattern(rand.New(rand.NewPCG(seed, uint64(c))), height, width, channels)
	}
	m.Train = pictures(rand.NewPCG(seed, 1<<32), patterns, n, height, width, channels)
	m.Test = pictures(rand.NewPCG(seed, 1<<33), patterns, n/6, height, width, channels)
	return m, m.check()
}

// pattern is a few soft spots, 0 to 191, which leaves room for noise.
func pattern(r *rand.Rand, height, width, channels int) []byte {
	p := make([]byte, height*width*channels)
	for range 4 {
		y0, x0 := r.Float64()*float64(height), r.Float64()*float64(width)
		radius := (0.08 + 0.12*r.Float64()) * float64(max(height, width))
		colour := make([]float64, channels)
		for c := range colour {
			colour[c] = 0.3 + 0.7*r.Float64()
		}
		for y := range height {
			for x := range width {
				d := math.Hypot(float64(y)-y0, float64(x)-x0) / max(radius, 0.5)
				for c := range channels {
					at := &p[(y*width+x)*channels+c]
					*at = max(*at, byte(191*colour[c]*math.Exp(-d*d)))
				}
			}
		}
	}
	return p
}

func pictures(source *rand.PCG, patterns [][]byte, n, height, width, channels int) Split {
	size := height * width * channels
	s := Split{Pixels: make([]byte, n*size), Labels: make([]int32, n)}
	r := rand.New(source)
	for i := range n {
		label := r.IntN(len(patterns))
		s.Labels[i] = int32(label)
		dy, dx := shift(r, height), shift(r, width)
		picture := s.Pixels[i*size : (i+1)*size]
		for y := range height {
			from := y + dy
			if from < 0 || from >= height {
				continue
			}
			left, right := max(0, -dx), min(width, width-dx)
			if left < right {
				copy(picture[(y*width+left)*channels:(y*width+right)*channels],
					patterns[label][(from*width+left+dx)*channels:(from*width+right+dx)*channels])
			}
		}
		// Eight bytes of noise, 0 to 63, from each draw.
		for at := 0; at < size; {
			for bits := source.Uint64() & 0x3f3f3f3f3f3f3f3f; at < size; bits >>= 8 {
				picture[at] += byte(bits)
				if at++; at%8 == 0 {
					break
				}
			}
		}
	}
	return s
}

// shift is a random move of at most a tenth of a side.
func shift(r *rand.Rand, side int) int {
	most := side / 10
	return r.IntN(2*most+1) - most
}

// Sine returns n points of a sine wave with period points per period, starting with
// 0: the curve that the LSTM notebook predicts. It panics if period is 0 or not
// finite.
func Sine(n int, period float64) []float32 {
	if !(period > 0 || period < 0) || math.IsInf(period, 0) {
		panic(fmt.Errorf("datasets: sine: period of %g: want so many points, other than 0", period))
	}
	wave := make([]float32, max(n, 0))
	for i := range wave {
		wave[i] = float32(math.Sin(2 * math.Pi * float64(i) / period))
	}
	return wave
}

// A Surface is a function of two variables on a square grid.
type Surface struct {
	Name string
	Axis []float32 // the n coordinates of each variable, ascending
	X    []float32 // shaped [n·n 2]: the two variables, the first one changing slowest
	Y    []float32 // shaped [n·n 1]: the values of the function
}

// Peaks returns MATLAB's peaks function on n×n points of [-3, 3]²:
//
//	3(1-x)²·exp(-x²-(y+1)²) - 10(x/5-x³-y⁵)·exp(-x²-y²) - ⅓·exp(-(x+1)²-y²)
func Peaks(n int) Surface {
	n = max(n, 0)
	s := Surface{Name: fmt.Sprintf("peaks on %d×%d points", n, n), Axis: make([]float32, n), X: make([]float32, 0, 2*n*n), Y: make([]float32, 0, n*n)}
	for i := range s.Axis {
		s.Axis[i] = -3
		if n > 1 {
			s.Axis[i] = float32(-3 + 6*float64(i)/float64(n-1))
		}
	}
	for _, a := range s.Axis {
		for _, b := range s.Axis {
			s.X = append(s.X, a, b)
			s.Y = append(s.Y, float32(peaks(float64(a), float64(b))))
		}
	}
	return s
}

func peaks(x, y float64) float64 {
	return 3*(1-x)*(1-x)*math.Exp(-x*x-(y+1)*(y+1)) -
		10*(x/5-x*x*x-math.Pow(y, 5))*math.Exp(-x*x-y*y) -
		math.Exp(-(x+1)*(x+1)-y*y)/3
}
