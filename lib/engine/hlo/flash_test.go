package hlo_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/hlo"
)

// TestFlash holds the calls of cuDNN's attention to those that JAX writes, which XLA's CUDA
// plugin takes: target, settings, layouts and types.
func TestFlash(t *testing.T) {
	raw, err := os.ReadFile("testdata/attention_cudnn.mlir")
	if err != nil {
		t.Fatal(err)
	}
	calls := func(text string) (l []string) {
		for _, line := range regexp.MustCompile(`(?m)stablehlo\.custom_call .*$`).FindAllString(text, -1) {
			line = regexp.MustCompile(`\(%[^)]*\)`).ReplaceAllString(line, "(…)")
			line = regexp.MustCompile(` loc\(.*`).ReplaceAllString(line, "")
			l = append(l, strings.TrimSpace(line))
		}
		return l
	}
	build := func(c hlo.Flash, lengths bool) *hlo.Program {
		d := newDraft(t)
		f := d.main()
		q, k, v := d.param(f, dtypes.BFloat16, 8, 1024, 12, 64), d.param(f, dtypes.BFloat16, 8, 1024, 12, 64), d.param(f, dtypes.BFloat16, 8, 1024, 12, 64)
		var of []compute.Value
		if lengths {
			of = []compute.Value{d.param(f, dtypes.Int32, 8), d.param(f, dtypes.Int32, 8)}
		}
		y, statistics, err := c.Attention(f, q, k, v, of...)
		d.ok(err)
		g, err := c.AttentionGradient(f, q, k, v, statistics, y, y, of...)
		d.ok(err)
		return d.program(g...)
	}
	p := build(hlo.Flash{Scale: 0.125, Causal: true}, false)
	if got, want := calls(string(p.Text(nil))), calls(string(raw)); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := 7 * 2 * 8 * 12 * 1024 * 1024 * 64.0; p.FLOPs() != want {
		t.Errorf("%g FLOPs: want those of 7 products, %g", p.FLOPs(), want)
	}
	text := string(build(hlo.Flash{Scale: 1}, true).Text(nil))
	for _, want := range []string{`\22PADDING\22`, "tensor<8xi32>, tensor<8xi32>) -> (tensor<8x12x1024x64xbf16>"} {
		if strings.Count(text, want) != 2 {
			t.Errorf("with lengths %q is there %d times: want 2", want, strings.Count(text, want))
		}
	}
	d := newDraft(t)
	x := d.param(d.main(), dtypes.Float32, 1, 2, 3, 8)
	if _, _, err := (hlo.Flash{}).Attention(d.main(), x, x, x); err == nil || !strings.Contains(err.Error(), "want bfloat16 or float16") {
		t.Errorf("of float32: got %v", err)
	}
}
