package device

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestFreeMemory holds what is left of a machine's memory, or of a container's, and what
// there is in all.
func TestFreeMemory(t *testing.T) {
	const machine = "MemTotal:       24000 kB\nMemFree:  10 kB\nMemAvailable:   20000 kB\nSwapFree:  500 kB\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
		all   int64
	}{
		{"a machine", map[string]string{"proc/meminfo": machine}, 20500 << 10, 24000 << 10},
		{"a container without a limit", map[string]string{"proc/meminfo": machine, "sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "7\n"}, 20500 << 10, 24000 << 10},
		{"a container", map[string]string{"proc/meminfo": machine, "sys/fs/cgroup/memory.max": "1000000\n", "sys/fs/cgroup/memory.current": "900000\n", "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 50000\n"}, 150000, 1000000},
		{"a full container", map[string]string{"sys/fs/cgroup/memory.max": "1000000\n", "sys/fs/cgroup/memory.current": "1000100\n"}, 0, 0},
		{"nothing known", nil, math.MaxInt64, 0},
		{"nonsense", map[string]string{"proc/meminfo": "MemAvailable: many kB\n\x00\n", "sys/fs/cgroup/memory.max": "\xff"}, math.MaxInt64, 0},
	} {
		root := fstest.MapFS{}
		for path, text := range tt.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := freeMemory(root); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
		if got := allMemory(root); got != tt.all {
			t.Errorf("%s: got %d in all, want %d", tt.name, got, tt.all)
		}
	}
}
