package hlo_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// TestConverted has a value that is known in another type in place of its conversion, also
// in a closure, and not where it is converted to a third one.
func TestConverted(t *testing.T) {
	d := newDraft(t)
	f := d.main()
	wide, narrow := d.param(f, dtypes.Float32, 3), d.param(f, dtypes.BFloat16, 3)
	d.ok(f.Converted(wide, narrow))
	yes := d.param(f, dtypes.Bool)
	branch := func(of compute.Value) compute.Function {
		return d.closure(func(c compute.Function) []compute.Value {
			return []compute.Value{d.v(c.Neg(d.v(c.ConvertDType(of, dtypes.BFloat16))))}
		})
	}
	out := d.vs(f.If(yes, branch(wide), branch(d.v(f.Neg(wide)))))
	d.ok(f.Return([]compute.Value{d.v(f.ConvertDType(wide, dtypes.BFloat16)), d.v(f.ConvertDType(wide, dtypes.Float16)), out[0]}, nil))
	p, err := d.b.Program()
	d.ok(err)
	text := string(p.Text(nil))
	if got := strings.Count(text, "stablehlo.convert"); got != 2 || strings.Contains(text, "convert %arg0 : (tensor<3xf32>) -> tensor<3xbf16>") {
		t.Errorf("got %d conversions, want those of the negated value and to float16:\n%s", got, text)
	}
}
