package lstm

import "gaiden/lib/engine/gemm"

// Target is the custom call's name.
const Target = "gaiden.lstm"

// Scratch is the number of float32 that a call works in with n sequences: for each thread the
// recurrent weights, and what it computes at a place.
func Scratch(n, units, threads int) int {
	up := func(x, to int) int { return (x + to - 1) / to * to }
	threads = max(1, min(threads, n))
	high := n/threads + 2*gemm.Rows
	forward := 4*up(units, gemm.Panel/2)*(units+1+high) + units*high
	back := 4*units*up(units, gemm.Panel) + high*(4*units+up(units, gemm.Panel)+up(units, gemm.Panel/2))
	return 64 + threads*(16+max(forward, back))
}
