package fit

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// normal is a residual net whose batch norms stand in all places: behind a
// layer, with an activation that has no kernel, and at the end of blocks with one
// reader behind them and with two. Its convolutions have no biases: behind one a
// batch norm takes the mean away, so that a bias has the gradient 0, and what is
// computed of it is rounding.
func normal() models.Net {
	conv := func(name string, kernel int) models.Layer {
		return models.Conv2D{Name: name, Channels: 6, Kernel: kernel, Pad: kernel / 2, NoBias: true}
	}
	square := func(x *graph.Node) *graph.Node { return graph.Square(x) }
	return models.Net{Name: "normal", Input: []int{8, 8, 2}, Layers: []models.Layer{
		conv("conv1", 3), models.BatchNorm{Name: "bn1", Act: models.ReLU},
		models.Residual{Name: "block1", Act: models.ReLU, Main: []models.Layer{conv("conv1", 3), models.BatchNorm{Name: "bn1"}},
			Skip: []models.Layer{conv("conv2", 1), models.BatchNorm{Name: "bn2"}}},
		models.Residual{Name: "block2", Act: square, Main: []models.Layer{conv("conv1", 3), models.BatchNorm{Name: "bn1", Act: graph.Tanh}, conv("conv2", 1), models.BatchNorm{Name: "bn2", Epsilon: 1e-3}}},
		models.Residual{Name: "block3", Main: []models.Layer{models.BatchNorm{Name: "bn1", Momentum: 0.5, Act: square}}},
		models.GlobalAvgPool{Name: "pool"},
		models.Dense{Name: "output", Units: 10},
	}}
}

// TestNormPrograms holds what a residual net's step has for a GPU: four kernels
// for each batch norm, one text for norms of one shape, and a label for each.
func TestNormPrograms(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "norms", models.ResNet("ResNet26", 2, 2, 2, 2), Config{Optimizer: optim.SGD{Momentum: 0.9}})
	data := load(t, n, "images", digits(4, n.model.Input, 1))
	const norms = 1 + 8*3 + 4
	texts := map[int]string{}
	for _, fused := range []int{0, 1} {
		part := plan.Part{Batch: 4, Inner: 1, Unroll: 1, Limit: 1, Form: plan.Fresh, Devices: 1}
		if fused == 1 {
			part = withKernels(t, n, data, part)
		}
		p, err := n.epochProgram(data, part)
		if err != nil {
			t.Fatal(err)
		}
		texts[fused] = string(p.Text(nil))
		ours, xlas := strings.Count(texts[fused], "custom_call @"+triton.Target), strings.Count(texts[fused], `stablehlo.batch_norm_`)
		if fused == 0 && (ours != 0 || xlas != 2*norms) || fused == 1 && (ours != 4*norms || xlas != 0) {
			t.Errorf("fused %d: got %d kernels and %d of XLA's batch norms, want 4 or 2 for each of %d", fused, ours, xlas, norms)
		}
	}
	calls := regexp.MustCompile(`custom_call @\S+?\(([^)]*)\) \{.*ir = "([^"]*)".* name = "(\w+)".* loc\((#\w+)\)`).FindAllStringSubmatch(texts[1], -1)
	if len(calls) != 4*norms {
		t.Fatalf("found %d calls, want %d", len(calls), 4*norms)
	}
	kinds, operands := map[string]map[string]bool{}, map[string][]int{}
	for _, c := range calls {
		if kinds[c[3]] == nil {
			kinds[c[3]] = map[string]bool{}
		}
		kinds[c[3]][c[2]] = true
		operands[c[3]] = append(operands[c[3]], len(strings.Split(c[1], ",")))
		if !regexp.MustCompile(regexp.QuoteMeta(c[4]) + ` = loc\("(bn1|res\d_\d)/(forward|backward)"`).MatchString(texts[1]) {
			t.Errorf("kernel %s has no label of layer and phase", c[3])
		}
	}
	// Shapes [rows channels]: the stem, two in the first stage, and three in each
	// of the others, whose first block halves the images in its second layer. At
	// the last block's end one gradient arrives where two do in front of it.
	for kind, l := range kinds {
		if len(l) > 1+2+3*3+1 {
			t.Errorf("%s: got %d texts, want 13 at most", kind, len(l))
		}
	}
	// Seven of eight blocks have two readers behind them, so that two gradients
	// arrive: mean, variance, scale, offset, x, the gradients, y.
	sums := operands["norm_back_sums_relu"]
	var two, one int
	for _, k := range sums {
		switch k {
		case 8:
			two++
		case 7:
			one++
		}
	}
	if two != 7 || one != 1 {
		t.Errorf("got %d ends of blocks that add two gradients up and %d with one, want 7 and 1; all have %v operands", two, one, slices.Sorted(slices.Values(sums)))
	}
}
