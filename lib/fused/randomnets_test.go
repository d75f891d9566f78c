package fused

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/models"
)

// drawnNet is a net drawn from a seed: layers that follow, stand in one another, and are used in ways that the
// lowering may not expect. No norm is of two numbers, which make 1 and -1 of any.
func drawnNet(seed uint64) testNet {
	d := &netDraw{Rand: rand.New(rand.NewPCG(seed, 1))}
	t := testNet{name: fmt.Sprint("seed ", seed)}
	switch d.IntN(4) {
	case 0:
		t.input = []int{3 + d.IntN(4)}
	case 1: // the host lacks convolutions' gradients
		t.input = []int{3 + d.IntN(3), 3 + d.IntN(3), 3 + d.IntN(3)}
	default:
		t.input = []int{1 + d.IntN(4), 2 * (2 + d.IntN(2))}
	}
	dims := t.input
	for range 1 + d.IntN(4) {
		var l models.Layer
		l, dims = d.layer(dims, 2)
		t.layers = append(t.layers, l)
	}
	t.layers = append(t.layers, models.Dense{Name: "out", Units: 2})
	return t
}

type netDraw struct {
	*rand.Rand
	names int
}

func (d *netDraw) name() string {
	d.names++
	return fmt.Sprint("l", d.names)
}

func (d *netDraw) act() models.Act {
	all := []models.Act{nil, models.ReLU, graph.Tanh, graph.Sigmoid, models.GELU, models.SiLU, models.ELU}
	return all[d.IntN(len(all))]
}

func (d *netDraw) some() bool { return d.IntN(2) == 0 }

func (d *netDraw) layers(dims []int, deep int) []models.Layer {
	var all []models.Layer
	for range 1 + d.IntN(3) {
		l, _ := d.same(dims, deep)
		all = append(all, l)
	}
	return all
}

// same draws a layer whose results have the dimensions of its inputs.
func (d *netDraw) same(dims []int, deep int) (models.Layer, []int) {
	width := dims[len(dims)-1]
	kinds := 9
	if deep > 0 {
		kinds = 14
	}
	switch d.IntN(kinds) {
	case 0:
		return models.LayerNorm{Name: d.name()}, dims
	case 1:
		return models.RMSNorm{Name: d.name(), PlusOne: d.some()}, dims
	case 2:
		return models.Activation{Name: d.name(), Act: d.act()}, dims
	case 3:
		return models.PReLU{Name: d.name()}, dims
	case 4:
		return models.GroupNorm{Name: d.name(), Groups: 1}, dims
	case 5, 6:
		return models.Dense{Name: d.name(), Units: width, Act: d.act(), NoBias: d.IntN(4) == 0}, dims
	case 7, 8:
		if len(dims) == 2 && width%2 == 0 {
			if d.some() {
				return models.TransformerBlock{Name: d.name(), Heads: 2, KVHeads: 1 + d.IntN(2), Causal: d.some(), RMSNorm: d.some(), Gated: d.some(), NoBias: d.some(), Act: models.SiLU}, dims
			}
			return models.Attention{Name: d.name(), Heads: 1 + d.IntN(2), Causal: d.some(), NoBias: d.some()}, dims
		}
		return models.FeedForward{Name: d.name(), Hidden: 1 + d.IntN(5), Gated: d.some(), NoBias: d.some()}, dims
	case 9, 10:
		r := models.Residual{Main: d.layers(dims, deep-1)}
		if d.IntN(3) == 0 {
			r.Skip = d.layers(dims, deep-1)
		}
		if d.IntN(3) == 0 {
			r.Act = d.act()
		}
		return r, dims
	case 11:
		return models.Sequential{Name: d.name(), Layers: d.layers(dims, deep-1)}, dims
	case 12:
		l, _ := d.same(dims, deep-1)
		return models.Repeat{Name: d.name(), Times: 1 + d.IntN(2), Recompute: d.some(), Layer: l}, dims
	default:
		l, _ := d.same(dims, deep-1)
		return twice{l}, dims
	}
}

// layer draws any layer.
func (d *netDraw) layer(dims []int, deep int) (models.Layer, []int) {
	last := len(dims) - 1
	with := func(width int) []int { return append(append([]int{}, dims[:last]...), width) }
	switch d.IntN(9) {
	case 0:
		n := 3 + d.IntN(5)
		return models.Dense{Name: d.name(), Units: n, Act: d.act(), NoBias: d.IntN(4) == 0}, with(n)
	case 1:
		l, _ := d.same(dims, deep-1)
		m, _ := d.same(dims, deep-1)
		return models.Concat{Branches: [][]models.Layer{{l}, {m}, {}}}, with(3 * dims[last])
	case 2:
		if last == 0 {
			break
		}
		size := 1
		for _, n := range dims {
			size *= n
		}
		return models.Flatten{Name: d.name()}, []int{size}
	case 3:
		if last != 1 {
			break
		}
		n := 2 * (2 + d.IntN(2))
		var l models.Layer
		switch d.IntN(3) {
		case 0:
			l = models.GRU{Name: d.name(), Units: n}
		case 1:
			l = models.RNN{Name: d.name(), Units: n, Act: models.ReLU}
		default:
			l = models.LSTM{Name: d.name(), Units: n}
		}
		return l, []int{dims[0], n}
	}
	return d.same(dims, deep)
}

// TestDrawnNets holds nets drawn from seeds, 200 with GAIDEN_TEST_FULL, to the same nets in GoMLX's operations, in
// float32 and in bfloat16 (whose rounding differs: the host rounds between operations, kernels do not).
func TestDrawnNets(t *testing.T) {
	seeds := uint64(12)
	if os.Getenv("GAIDEN_TEST_FULL") != "" {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			holdTrained(t, drawnNet(seed), dtypes.Float32, 1e-3)
			holdTrained(t, drawnNet(seed), dtypes.BFloat16, 0.5)
		})
	}
}
