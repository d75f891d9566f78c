package lstm

// Target is the custom call's name, Platform XLA's of a CPU.
const (
	Target   = "gaiden.lstm"
	Platform = "Host"
)

// Handler is a C function for a custom call.
type Handler struct {
	Bits  int     // of its vectors: 512 (AVX-512) or 256 (AVX2)
	Entry uintptr // its address, an XLA_FFI_Handler
}

// rows and panel are how many rows and columns a block has, panel two vectors: AVX-512's, which
// are the larger.
const (
	rows  = 12
	panel = 32
)

// Scratch is the number of float32 that a call works in with n sequences: for each thread the
// recurrent weights, and what it computes at a place.
func Scratch(n, units, threads int) int {
	up := func(x, to int) int { return (x + to - 1) / to * to }
	threads = max(1, min(threads, n))
	high := n/threads + 2*rows
	forward := 4*up(units, panel/2)*(units+1+high) + units*high
	back := 4*units*up(units, panel) + high*(4*units+up(units, panel)+up(units, panel/2))
	return 64 + threads*(16+max(forward, back))
}
