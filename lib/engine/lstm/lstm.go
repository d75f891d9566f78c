package lstm

// Target is the custom call's name.
const Target = "gaiden.lstm"

// Scratch is the number of float32 that a call works in with n sequences: for each thread the
// recurrent weights, and what it computes at a place.
func Scratch(n, units, threads int) int {
	up := func(x, to int) int { return (x + to - 1) / to * to }
	const vector, panel, rows = 16, 32, 12 // gemm's blocks, the larger of AVX-512's and AVX2's
	threads = max(1, min(threads, n))
	high := n/threads + 2*rows
	forward := 4*up(units, vector)*(units+1+high) + units*high
	back := 4*units*up(units, panel) + high*(4*units+up(units, panel)+up(units, vector))
	return 64 + threads*(16+max(forward, back))
}
