package xla

import (
	"math/big"

	. "github.com/gomlx/gomlx/core/graph"
)

// matrix is of weights, row by row.
type matrix [][]float64

func zeros(rows, columns int) matrix {
	m := make(matrix, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

func (m matrix) transposed() matrix {
	t := zeros(len(m[0]), len(m))
	for i, row := range m {
		for k, v := range row {
			t[k][i] = v
		}
	}
	return t
}

// times is the matrix times a vector of nodes.
func (m matrix) times(node func(i int) *Node) []*Node {
	l := make([]*Node, len(m))
	for i, weights := range m {
		l[i] = weighted(weights, node)
	}
	return l
}

// weighted is the sum of nodes, each times its weight. One weight is not 0.
func weighted(weights []float64, node func(i int) *Node) *Node {
	var sum *Node
	for i, w := range weights {
		switch {
		case w == 0:
		case sum == nil && w == 1:
			sum = node(i)
		case sum == nil:
			sum = Mul(node(i), number(node(i), w))
		case w == 1:
			sum = Add(sum, node(i))
		case w == -1:
			sum = Sub(sum, node(i))
		default:
			sum = Add(sum, Mul(node(i), number(node(i), w)))
		}
	}
	return sum
}

// toomPoints are where winogradOf takes the values of polynomials; one more is at infinity.
// Of those tried, out+taps-2 of them in this order lose the fewest digits.
var toomPoints = []*big.Rat{big.NewRat(0, 1), big.NewRat(1, 1), big.NewRat(-1, 1), big.NewRat(2, 1), big.NewRat(-1, 2), big.NewRat(1, 2)}

// winogradOf makes the matrices for tiles of out outputs a side, out+taps up to 8, by
// Toom and Cook: a convolution is the transpose of a product of polynomials, and that is
// known by its values at as many points as it has coefficients.
func winogradOf(out, taps int) winograd {
	some := toomPoints[:out+taps-2]
	last := len(some)
	w := winograd{out: out, taps: taps, a: zeros(out, last+1), g: zeros(last+1, taps), b: zeros(last+1, last+1)}
	for i, p := range some {
		scale := big.NewRat(1, 1)
		for k, q := range some {
			if k != i {
				scale.Mul(scale, new(big.Rat).Sub(p, q))
			}
		}
		power := big.NewRat(1, 1)
		for k := range max(out, taps) {
			if k < out {
				w.a[k][i], _ = power.Float64()
			}
			if k < taps {
				w.g[i][k], _ = new(big.Rat).Quo(power, scale).Float64()
			}
			power = new(big.Rat).Mul(power, p)
		}
		w.b[i] = coefficients(some, i)
	}
	w.a[out-1][last], w.g[last][taps-1] = 1, 1
	w.b[last] = coefficients(some, -1)
	return w
}

// coefficients are those of Π (x - p) over the points but one: of as many powers of x
// as there are points, and one more.
func coefficients(points []*big.Rat, but int) []float64 {
	l := make([]*big.Rat, len(points)+1)
	for i := range l {
		l[i] = new(big.Rat)
	}
	l[0].SetInt64(1)
	for i, p := range points {
		if i == but {
			continue
		}
		for k := len(l) - 1; k >= 0; k-- {
			l[k].Neg(l[k].Mul(l[k], p))
			if k > 0 {
				l[k].Add(l[k], l[k-1])
			}
		}
	}
	f := make([]float64, len(l))
	for i, v := range l {
		f[i], _ = v.Float64()
	}
	return f
}
