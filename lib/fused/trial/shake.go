package main

import (
	"math"

	"gaiden/lib/fit"
)

// shakes are what is done to the first weights of a curve of that kind.
var shakes = map[string]func(net *fit.Net, bf16 bool) error{"XLA shaken": shake, "XLA nudged": nudge}

// shake rounds weights to what products take, TF32 or bfloat16: the least that
// each step does to them. How far two trainings of one kind come apart by that is how far two kinds
// of kernels may.
func shake(net *fit.Net, bf16 bool) error {
	half := uint32(1) << 12 // of the last bit that stays
	if bf16 {
		half = 1 << 15
	}
	return change(net, func(w []float32) {
		for i, x := range w {
			w[i] = math.Float32frombits((math.Float32bits(x) + half) &^ (2*half - 1))
		}
	})
}

// nudge changes weights by their last bit, 1e-7 of them: the noise of float32, which
// another order of sums has too.
func nudge(net *fit.Net, _ bool) error { return change(net, func(w []float32) { nudged(w, 0) }) }

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
