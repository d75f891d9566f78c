package device

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestFindOptions holds what a plugin's client is told by the environment, once the
// supervisor has told the worker.
func TestFindOptions(t *testing.T) {
	for _, tt := range []struct {
		device, fraction string
		want             map[string]any
	}{
		{"cuda", "", map[string]any{"preallocate": false}},
		{"cuda", "1", map[string]any{"preallocate": false, "memory_fraction": 1.0}},
		{"cuda:1", "", map[string]any{"preallocate": false, "visible_devices": []int64{1}}},
		{"cuda", "0.9", map[string]any{"preallocate": false, "memory_fraction": 0.9}},
		{"cpu", "0.9", map[string]any{"cpu_device_count": int64(1)}},
	} {
		t.Setenv("GAIDEN_PLUGIN", "/lib/plugin.so")
		t.Setenv("GAIDEN_CPU_DEVICES", "")
		t.Setenv("GAIDEN_DEVICE", tt.device)
		t.Setenv("GAIDEN_MEMORY_FRACTION", tt.fraction)
		p, err := Find()
		if err != nil {
			t.Fatal(err)
		}
		told, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got Plugin
		if err := json.Unmarshal(told, &got); err != nil {
			t.Fatal(err)
		}
		if got.retype(); !reflect.DeepEqual(got.Options, tt.want) {
			t.Errorf("%s with fraction %q: got %v, want %v", tt.device, tt.fraction, got.Options, tt.want)
		}
	}
}
