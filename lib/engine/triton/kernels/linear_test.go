package kernels

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
	"gaiden/lib/optim"
)

// tiles are exact, so that an error of 1e-5 tells.
var tiles = []Tile{{Rounding: triton.Exact}, {M: 16, N: 16, K: 16, Rounding: triton.Exact},
	{M: 16, N: 32, K: 16, Split: 2, Rounding: triton.Exact}, {M: 32, N: 16, K: 16, Split: 4, Warps: 8, Rounding: triton.Exact}}

var sizes = []struct{ batch, in, out int }{{1, 1, 1}, {1, 16, 16}, {3, 7, 5}, {17, 33, 10}, {32, 64, 48}, {40, 70, 33}}

// TestLinear compares each kernel of a dense layer with loops of Go.
func TestLinear(t *testing.T) {
	for i, s := range sizes {
		for j, tile := range tiles {
			act := act(i + j)
			x, w, bias := numbers(1, s.batch*s.in), numbers(2, s.in*s.out), numbers(3, s.out)
			want := matmul(x, w, s.batch, s.in, s.out, false, false)
			for k := range want {
				want[k] = plain(act, want[k]+bias[k%s.out])
			}
			l := Linear{Batch: s.batch, In: s.in, Out: s.out, Act: act, Tile: tile}
			near(t, name("linear ", s, act, tile), run(t, l.Kernel(), x, w, bias)[0], want, 1e-5)
			l.Compute, l.Y = dtypes.BFloat16, dtypes.BFloat16
			near(t, name("linear in bfloat16 ", s, act, tile), run(t, l.Kernel(), x, w, bias)[0], want, 2e-2)

			g := numbers(4, s.batch*s.out)
			y := numbers(5, s.batch*s.in)
			back := matmul(g, w, s.batch, s.out, s.in, false, true)
			for k := range back {
				back[k] *= slope(act, y[k])
			}
			d := LinearInput{Batch: s.batch, In: s.in, Out: s.out, Act: act, Tile: tile}
			in := [][]float64{g, w}
			if act != Identity {
				in = append(in, y)
			}
			near(t, name("input gradient ", s, act, tile), run(t, d.Kernel(), in...)[0], back, 1e-5)

			u := LinearUpdate{Batch: s.batch, In: s.in, Out: s.out, Tile: tile}
			got := run(t, u.Kernel(), x, g)
			near(t, name("weight gradient ", s, tile), got[0], matmul(x, g, s.in, s.batch, s.out, true, false), 1e-5)
			near(t, name("bias gradient ", s, tile), got[1], sums(g, s.out), 1e-5)
			u.NoBias = true
			near(t, name("weight gradient alone ", s, tile), run(t, u.Kernel(), x, g)[0], matmul(x, g, s.in, s.batch, s.out, true, false), 1e-5)
		}
	}
}

// TestRounding holds what TF32 costs: 2⁻¹² of each factor if it is rounded, twice
// that, and all in one direction, if its bits are dropped.
func TestRounding(t *testing.T) {
	x, w := numbers(1, 20*300), positive(2, 300*10)
	want := matmul(x, w, 20, 300, 10, false, false)
	for rounding, limit := range map[triton.Rounding]float64{triton.Nearest: 3e-4, triton.Exact: 1e-6} {
		l := Linear{Batch: 20, In: 300, Out: 10, NoBias: true, Tile: Tile{Rounding: rounding}}
		near(t, name(l.tile()), run(t, l.Kernel(), x, w)[0], want, limit)
	}
}

// sums adds up the rows of g [rows width].
func sums(g []float64, width int) []float64 {
	l := make([]float64, width)
	for i, x := range g {
		l[i%width] += x
	}
	return l
}

// rules are the optimizers with their steps in Go, for one weight.
var rules = []struct {
	rule Rule
	step func(rate, t, w, g float64, m []float64) float64 // changes m
}{
	{optim.SGD{WeightDecay: 0.1}.Rule(), func(rate, _, w, g float64, _ []float64) float64 { return w - rate*(g+0.1*w) }},
	{optim.SGD{Momentum: 0.9}.Rule(), func(rate, _, w, g float64, m []float64) float64 {
		m[0] = 0.9*m[0] + g
		return w - rate*m[0]
	}},
	{optim.SGD{Momentum: 0.9, Nesterov: true}.Rule(), func(rate, _, w, g float64, m []float64) float64 {
		m[0] = 0.9*m[0] + g
		return w - rate*(g+0.9*m[0])
	}},
	{optim.Adam{WeightDecay: 0.01}.Rule(), func(rate, t, w, g float64, m []float64) float64 {
		g += 0.01 * w
		m[0] = 0.9*m[0] + 0.1*g
		m[1] = 0.999*m[1] + 0.001*g*g
		return w - rate*(m[0]/(1-math.Pow(0.9, t)))/(math.Sqrt(m[1]/(1-math.Pow(0.999, t)))+1e-8)
	}},
	{optim.AdaDelta{}.Rule(), func(rate, _, w, g float64, m []float64) float64 {
		m[0] = 0.9*m[0] + 0.1*g*g
		update := math.Sqrt((m[1]+1e-6)/(m[0]+1e-6)) * g
		m[1] = 0.9*m[1] + 0.1*update*update
		return w - rate*update
	}},
}

// after is an optimizer's state after a step.
func after(i int, rate, t float64, g []float64, state [][]float64) [][]float64 {
	next := make([][]float64, len(state))
	for k := range next {
		next[k] = make([]float64, len(g))
	}
	for j := range g {
		m := make([]float64, len(state)-1)
		for k := range m {
			m[k] = state[1+k][j]
		}
		next[0][j] = rules[i].step(rate, t, state[0][j], g[j], m)
		for k := range m {
			next[1+k][j] = m[k]
		}
	}
	return next
}

// initial is a state for n weights.
func initial(r Rule, n int) [][]float64 {
	l := [][]float64{numbers(11, n)}
	for k := range r.Moments() {
		l = append(l, positive(uint64(12+k), n))
	}
	return l
}

func clone(l [][]float64) [][]float64 {
	c := make([][]float64, len(l))
	for i := range l {
		c[i] = append([]float64(nil), l[i]...)
	}
	return c
}

func TestUpdates(t *testing.T) {
	const rate = 0.01
	for i, r := range rules {
		for j, s := range sizes {
			tile := tiles[(i+j)%len(tiles)]
			x, g := numbers(1, s.batch*s.in), numbers(4, s.batch*s.out)
			number := float64(1 + 5*j)
			weights, bias := initial(r.rule, s.in*s.out), initial(r.rule, s.out)
			want := append(after(i, rate, number, matmul(x, g, s.in, s.batch, s.out, true, false), weights), after(i, rate, number, sums(g, s.out), bias)...)
			u := LinearUpdate{Batch: s.batch, In: s.in, Out: s.out, Rule: r.rule, Tile: tile}
			in := append(append([][]float64{x, g}, clone(weights)...), clone(bias)...)
			got := run(t, u.Kernel(), append(in, []float64{rate}, []float64{number})...)
			for k := range want {
				near(t, name("output ", k, " of ", r.rule.Name(), s, tile), got[k], want[k], 2e-5)
			}
		}
	}
}

func TestHead(t *testing.T) {
	for i, s := range []struct{ batch, in, classes int }{{1, 3, 2}, {5, 40, 10}, {16, 16, 16}, {37, 70, 33}, {20, 9, 200}} {
		x, w, bias, label := numbers(1, s.batch*s.in), numbers(2, s.in*s.classes), numbers(3, s.classes), labels(4, s.batch, s.classes)
		logits := matmul(x, w, s.batch, s.in, s.classes, false, false)
		for k := range logits {
			logits[k] = 3 * (logits[k] + bias[k%s.classes])
		}
		for k := range w {
			w[k] *= 3
		}
		for k := range bias {
			bias[k] *= 3
		}
		loss, hit, g := make([]float64, s.batch), make([]float64, s.batch), make([]float64, len(logits))
		for m := range s.batch {
			row := logits[m*s.classes : (m+1)*s.classes]
			best, total := 0, 0.0
			for n, z := range row {
				if z > row[best] {
					best = n
				}
				total += math.Exp(z)
			}
			right := int(label[m])
			loss[m] = math.Log(total) - row[right]
			if best == right {
				hit[m] = 1
			}
			for n, z := range row {
				g[m*s.classes+n] = math.Exp(z) / total / float64(s.batch)
			}
			g[m*s.classes+right] -= 1 / float64(s.batch)
		}
		head := Head{Batch: s.batch, In: s.in, Classes: s.classes, Tile: tiles[i%len(tiles)]}
		soft := Softmax{Batch: s.batch, Classes: s.classes}
		all := map[string][][]float64{"head": run(t, head.Kernel(), x, w, bias, label)}
		for _, tile := range soft.Tiles() {
			all["softmax "+tile.String()] = run(t, soft.With(tile).(Softmax).Kernel(), logits, label)
		}
		for what, got := range all {
			near(t, name(what, s, " loss"), got[0], loss, 1e-5)
			near(t, name(what, s, " hits"), got[1], hit, 0)
			near(t, name(what, s, " gradient"), got[2], g, 1e-5)
		}
	}
}
