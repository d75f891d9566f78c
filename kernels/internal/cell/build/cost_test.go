package build

import "testing"

// TestDescribe: a Cost leaves out what did not happen.
func TestDescribe(t *testing.T) {
	c := Cost{Compose: 1_240_000, Link: 75_000_000, Road: "direct"}
	if got, want := c.String(), "compose 1.20 ms · link 75.0 ms (direct)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Cost{}).String(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
