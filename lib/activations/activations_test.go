package activations

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gaiden/lib/elementwise"
)

// TestOracle holds the activations to PyTorch's, and each way to their slopes.
func TestOracle(t *testing.T) {
	raw, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	var x []float64
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all["x"], &x); err != nil {
		t.Fatal(err)
	}
	near := func(t *testing.T, what string, x, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-8*(1+math.Abs(want)) {
			t.Errorf("%s at %v: got %v, want %v", what, x, got, want)
		}
	}
	for _, a := range All() {
		t.Run(a.Name(), func(t *testing.T) {
			if got, known := Named(a.Name()); !known || got != a {
				t.Errorf("Named(%s) is %v, %t", a.Name(), got, known)
			}
			var want struct{ Y, Slope []float64 }
			if err := json.Unmarshal(all[a.Name()], &want); err != nil {
				t.Fatal(err)
			}
			for i, x := range x {
				y := Apply(elementwise.Float64, a, x)
				near(t, "value", x, y, want.Y[i])
				near(t, "slope", x, BackFrom(elementwise.Float64, a, 1, x), want.Slope[i])
				if d := a.Expr().Diff(elementwise.X); x != 0 {
					near(t, "derivative", x, elementwise.Eval(elementwise.Float64, map[string]float64{"x": x}, d)[0], want.Slope[i])
				}
				if a.FromResult() {
					near(t, "slope by the result", x, Back(elementwise.Float64, a, 2, y), 2*want.Slope[i])
				}
			}
		})
	}
}
