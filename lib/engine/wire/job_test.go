package wire

import (
	"encoding/json"
	"math"
	"testing"
)

// TestFloats holds that a log carries every number bit by bit.
func TestFloats(t *testing.T) {
	want := Floats{0, math.Copysign(0, -1), 1.5, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324}
	var got JobEntry
	if err := json.Unmarshal(JSON(JobEntry{Values: want}), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Values) != len(want) {
		t.Fatalf("got %d values, want %d", len(got.Values), len(want))
	}
	for i := range want {
		if math.Float64bits(got.Values[i]) != math.Float64bits(want[i]) {
			t.Errorf("value %d: got %v, want %v", i, got.Values[i], want[i])
		}
	}
	for _, bad := range []string{`{"Values":"AAAA"}`, `{"Values":[1]}`, `{"Values":"*"}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}
