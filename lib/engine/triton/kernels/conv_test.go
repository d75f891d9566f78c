package kernels

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// forward is the convolution in loops of Go: results before pooling.
func (g Geometry) forward(x, w []float64) []float64 {
	height, width := g.Image()
	y := make([]float64, g.Batch*height*width*g.Out)
	g.each(func(result, pixel, weight int) { y[result] += x[pixel] * w[weight] })
	return y
}

// each calls f with the indices of a result, before pooling, a pixel and a
// weight that belong together.
func (g Geometry) each(f func(result, pixel, weight int)) {
	height, width := g.Image()
	for b := range g.Batch {
		for y := range height {
			for x := range width {
				for i := range g.Size {
					for j := range g.Size {
						row, column := y+i-g.Pad, x+j-g.Pad
						if row < 0 || row >= g.Height || column < 0 || column >= g.Width {
							continue
						}
						for c := range g.In {
							for o := range g.Out {
								f(((b*height+y)*width+x)*g.Out+o, ((b*g.Height+row)*g.Width+column)*g.In+c, ((i*g.Size+j)*g.In+c)*g.Out+o)
							}
						}
					}
				}
			}
		}
	}
}

// pool takes the maxima of windows, and which place of its window each was at.
func (g Geometry) pool(y []float64) (largest, winner []float64) {
	if !g.Pool {
		return y, nil
	}
	height, width := g.Image()
	h, w := g.Result()
	for b := range g.Batch {
		for i := range h {
			for j := range w {
				for o := range g.Out {
					best, at := math.Inf(-1), 0
					for q := range 4 {
						if v := y[((b*height+2*i+q/2)*width+2*j+q%2)*g.Out+o]; v > best {
							best, at = v, q
						}
					}
					largest, winner = append(largest, best), append(winner, float64(at))
				}
			}
		}
	}
	return largest, winner
}

// unpool puts a gradient where the winners were.
func (g Geometry) unpool(d, winner []float64) []float64 {
	if !g.Pool {
		return d
	}
	height, width := g.Image()
	h, w := g.Result()
	all := make([]float64, g.Batch*height*width*g.Out)
	for k := range d {
		o, j, i, b := k%g.Out, k/g.Out%w, k/g.Out/w%h, k/g.Out/w/h
		q := int(winner[k])
		all[((b*height+2*i+q/2)*width+2*j+q%2)*g.Out+o] = d[k]
	}
	return all
}

func TestConv(t *testing.T) {
	for i, g := range []Geometry{
		{Batch: 2, Height: 8, Width: 8, In: 1, Out: 10, Size: 3, Pad: 1, Pool: true},
		{Batch: 3, Height: 9, Width: 7, In: 3, Out: 6, Size: 5, Pool: true},
		{Batch: 1, Height: 5, Width: 5, In: 16, Out: 20, Size: 4},
		{Batch: 2, Height: 6, Width: 5, In: 2, Out: 17, Size: 3, Pad: 1},
		{Batch: 1, Height: 3, Width: 3, In: 1, Out: 1, Size: 2, Pool: true},
		{Batch: 2, Height: 7, Width: 7, In: 20, Out: 33, Size: 3, Pool: true},
	} {
		act, before := Act((i+1)%4), act(i)
		tile := []Tile{{Rounding: triton.Exact}, {M: 16, N: 16, K: 16, Warps: 2, Rounding: triton.Exact}}[i%2]
		x, w, bias := numbers(1, g.input(0).Size()), numbers(2, g.weights().Size()), numbers(3, g.Out)
		all := g.forward(x, w)
		for k := range all {
			all[k] += bias[k%g.Out]
		}
		y, winner := g.pool(all)
		y = append([]float64(nil), y...)
		for k := range y {
			y[k] = plain(act, y[k])
		}
		what := name(g, act, tile)
		got := run(t, Conv{Geometry: g, Act: act, Tile: tile}.Kernel(), x, w, bias)
		near(t, what+" forwards", got[0], y, 1e-5)
		if g.Pool {
			near(t, what+" winners", got[1], winner, 0)
		}

		d := numbers(4, len(y))
		full := g.unpool(d, winner)
		dx, dw := make([]float64, len(x)), make([]float64, len(w))
		g.each(func(result, pixel, weight int) {
			dx[pixel] += full[result] * w[weight]
			dw[weight] += full[result] * x[pixel]
		})
		for k := range dx {
			dx[k] *= slope(before, x[k])
		}
		in, gradient := [][]float64{d, w}, [][]float64{x, d}
		if g.Pool {
			in, gradient = append(in, winner), append(gradient, winner)
		}
		if before != Identity {
			in = append(in, x)
		}
		near(t, what+" input gradient", run(t, ConvInput{Geometry: g, Act: before, Tile: tile}.Kernel(), in...)[0], dx, 1e-5)

		for _, parts := range []int{0, 1, 3} {
			c := ConvGradient{Geometry: g, Tile: tile, Blocks: parts}
			sum := run(t, c.Kernel(), gradient...)[0]
			p := PartsUpdate{Parts: c.parts(), Weights: g.weights()}
			got := run(t, p.Kernel(), sum)
			near(t, what+" weight gradient", got[0], dw, 1e-5)
			near(t, what+" bias gradient", got[1], sums(d, g.Out), 1e-5)
			r := (i + parts) % len(rules)
			p.Rule = rules[r].rule
			weights, biases := initial(p.Rule, len(w)), initial(p.Rule, g.Out)
			want := append(after(r, 0.01, 2, dw, weights), after(r, 0.01, 2, sums(d, g.Out), biases)...)
			whole := append(append([][]float64{sum}, clone(weights)...), clone(biases)...)
			for k, o := range run(t, p.Kernel(), append(whole, []float64{0.01}, []float64{2})...) {
				near(t, name(what, " update ", k), o, want[k], 2e-5)
			}
		}
	}
}

// TestConvTiles writes every tiling of the ops of convolutions.
func TestConvTiles(t *testing.T) {
	g := Geometry{Batch: 8, Height: 28, Width: 28, In: 1, Out: 10, Size: 3, Pad: 1, Pool: true}
	for _, op := range []Op{Conv{Geometry: g}, ConvInput{Geometry: g, Act: ReLU, G: dtypes.BFloat16, X: dtypes.BFloat16, D: dtypes.BFloat16, Compute: dtypes.BFloat16}, ConvGradient{Geometry: g}} {
		for _, tile := range op.Tiles() {
			if _, err := op.With(tile).(interface{ Kernel() triton.Kernel }).Kernel().Text(); err != nil {
				t.Errorf("%s: tile %s: %v", op.Key(), tile, err)
			}
		}
	}
	if s := (ConvGradient{Geometry: g}).Shape(); !s.Equal(shapes.Make(dtypes.Float32, 100, 10, 10)) {
		t.Errorf("parts are %s, want 4 for each of 25 blocks, of [10 10]", s)
	}
}
