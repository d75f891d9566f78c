package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestUsualTilesFit holds that what a block of an untried tile loads in advance fits in the
// shared memory of a processor of an H100 or A100, whatever the sizes.
func TestUsualTilesFit(t *testing.T) {
	const most = 163 << 10 // bytes, of an A100
	r := rand.New(rand.NewPCG(1, 1))
	size := func(high int) int { return int(math.Pow(float64(high), r.Float64())) }
	for range 3000 {
		batch, in, out := size(4096), size(40000), size(4096)
		g := Geometry{Batch: size(512), Height: 4 + size(64), Width: 4 + size(64), In: size(256), Out: size(256), Size: 1 + 2*r.IntN(3), Pad: r.IntN(2), Pool: r.IntN(2) == 0}
		for what, tile := range map[string]Tile{
			"linear":        Linear{Batch: batch, In: in, Out: out}.tile(),
			"linear input":  LinearInput{Batch: batch, In: in, Out: out}.tile(),
			"linear update": LinearUpdate{Batch: batch, In: in, Out: out}.tile(),
			"head":          Head{Batch: batch, In: in, Classes: 1 + out%LargestHead}.tile(),
			"conv":          Conv{Geometry: g}.tile(),
			"conv input":    ConvInput{Geometry: g}.tile(),
			"conv gradient": ConvGradient{Geometry: g}.tile(),
		} {
			if bytes := (tile.M + tile.N) * tile.K * tile.Split * 4 * max(1, tile.Stages-1); bytes > most {
				t.Errorf("%s of %d×%d×%d or %+v: tile %s has %d bytes of shared memory, want %d at most", what, batch, in, out, g, tile, bytes, most)
			}
		}
	}
}
