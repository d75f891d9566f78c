package trial

import (
	"math"

	"gaiden/lib/fit"
)

// shake is a kind of curve of XLA's, from first weights that are others by noise.
type shake struct {
	kind   string
	change func(w []float32, bf16 bool)
	exact  bool // of float32 itself, and for its curves only
}

// shakes are all. Trainings that have begun to learn double the least difference every so
// many steps, and one draw of it says little: so there are two of each noise.
//
// Shaken weights are rounded to what products take, TF32 or bfloat16: the least that each step
// does to them; or they go as far the other way. Nudged ones are others by their last bit.
// How far trainings of one kind come apart by that is how far two kinds of kernels may.
var shakes = []shake{
	{kind: "XLA shaken", change: func(w []float32, bf16 bool) { shaken(w, bf16, false) }},
	{kind: "XLA shaken otherwise", change: func(w []float32, bf16 bool) { shaken(w, bf16, true) }},
	{kind: "XLA nudged", change: func(w []float32, _ bool) { nudged(w, 0) }, exact: true},
	{kind: "XLA nudged otherwise", change: func(w []float32, _ bool) { nudged(w, 1) }, exact: true},
}

// shaken rounds numbers to TF32 or bfloat16, or moves them as far to the other side.
func shaken(w []float32, bf16, otherwise bool) {
	half := uint32(1) << 12 // of the last bit that stays
	if bf16 {
		half = 1 << 15
	}
	for i, x := range w {
		near := math.Float32frombits((math.Float32bits(x) + half) &^ (2*half - 1))
		if otherwise {
			near = x - (near - x)
		}
		w[i] = near
	}
}

// nudged adds one to the last bit of half the numbers and takes it from the others: of every
// second one, of every second two, as the draw says. 0 stays.
func nudged(w []float32, draw int) {
	for i, x := range w {
		if x == 0 {
			continue
		}
		bits := math.Float32bits(x) + 1
		if i>>draw&1 > 0 {
			bits -= 2
		}
		w[i] = math.Float32frombits(bits)
	}
}

// change gives a net weights that f has changed.
func change(net *fit.Net, f func(w []float32)) error {
	weights, err := net.Weights()
	if err != nil {
		return err
	}
	for _, w := range weights {
		f(w.Data)
	}
	return net.SetWeights(weights)
}
