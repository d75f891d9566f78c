package kernels

import (
	"fmt"

	"gaiden/lib/engine/triton"
)

// Tile is how a matmul, or what else a kernel computes, is divided.
type Tile struct {
	// M, N are rows and columns of the result in a block: powers of two, 16 or
	// more. K is how deep a turn of the loop goes.
	M, N, K int
	// Split gives each part of a block's warps its own stretch of the depth:
	// they then need fewer bytes of shared memory for each product. 0 is 1.
	Split int
	// Warps and Stages are those of triton.Kernel.
	Warps, Stages int
	// Rounding of float32 factors to TF32.
	Rounding triton.Rounding
	// Apart says whether an LSTM changes the order of what its products give, which costs
	// a pass through shared memory and may save more of them: 1 is yes, -1 no.
	Apart int `json:",omitempty"`
}

// String is short: 32×32×64/4 w4 s3, or w4 where there is nothing else to a tile.
func (t Tile) String() string {
	if t == (Tile{Warps: t.Warps}) {
		return fmt.Sprintf("w%d", t.Warps)
	}
	s := fmt.Sprintf("%d×%d×%d", t.M, t.N, t.K)
	if t.Split > 1 {
		s += fmt.Sprintf("/%d", t.Split)
	}
	s += fmt.Sprintf(" w%d s%d", t.Warps, t.Stages)
	if t.Rounding == triton.Exact {
		s += " exact"
	}
	if t.Apart > 0 {
		s += " apart"
	}
	return s
}

// or fills in what is not given.
func (t Tile) or(u Tile) Tile {
	if t == (Tile{}) {
		t = u
	}
	if t.Rounding == 0 {
		t.Rounding = u.Rounding
	}
	for _, p := range []struct{ have, otherwise *int }{{&t.M, &u.M}, {&t.N, &u.N}, {&t.K, &u.K}, {&t.Split, &u.Split}, {&t.Warps, &u.Warps}, {&t.Stages, &u.Stages}, {&t.Apart, &u.Apart}} {
		if *p.have == 0 {
			*p.have = *p.otherwise
		}
	}
	t.Split = max(1, t.Split)
	return t
}

// fit makes sides no larger than their sizes need.
func (t Tile) fit(m, n, k int) Tile {
	t.M = min(t.M, triton.Cover(m, 16))
	t.N = min(t.N, triton.Cover(n, 16))
	t.K = min(t.K, triton.Cover(k, 16))
	for t.Split > 1 && t.K*t.Split >= 2*triton.Cover(k, 16) {
		t.Split /= 2
	}
	return t
}
