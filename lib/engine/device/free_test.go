package device

import (
	"math"
	"slices"
	"testing"
	"testing/fstest"

	"gaiden/lib/engine/pjrt"
)

// TestBesides holds when it is said that memory is in use that no array has. The figures in
// the first two are of an H100 that a session had a share of.
func TestBesides(t *testing.T) {
	const mb = 1e6
	for _, tt := range []struct {
		name    string
		devices []pjrt.MemoryStats
		arrays  int64
		want    int64
	}{
		{"lost", []pjrt.MemoryStats{{Limit: 3483 * mb, InUse: 2918 * mb}}, 899 * mb, 2019 * mb},
		{"left unused", []pjrt.MemoryStats{{Limit: 2984 * mb, InUse: 1342 * mb}}, 899 * mb, 0},
		{"little of a large device", []pjrt.MemoryStats{{Limit: 60000 * mb, InUse: 8000 * mb}}, 899 * mb, 0},
		{"much of it", []pjrt.MemoryStats{{Limit: 60000 * mb, InUse: 58500 * mb}}, 899 * mb, 57601 * mb},
		{"of two", []pjrt.MemoryStats{{Limit: 4000 * mb, InUse: 1000 * mb}, {Limit: 4000 * mb, InUse: 3000 * mb}}, 1500 * mb, 2500 * mb},
		{"not told", []pjrt.MemoryStats{{Limit: -1, InUse: -1}}, 899 * mb, 0},
		{"a CPU", nil, 899 * mb, 0},
	} {
		if got := besides(tt.devices, tt.arrays); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestOn holds which device each replica of a program runs on.
func TestOn(t *testing.T) {
	for _, tt := range []struct {
		p    program
		want []int
	}{
		{program{replicas: 1}, []int{2}},
		{program{replicas: 1, devices: []int{1}}, []int{1}},
		{program{replicas: 2, devices: []int{0, 3}}, []int{0, 3}},
		{program{replicas: 3}, []int{0, 1, 2}},
	} {
		var got []int
		for r := range tt.p.replicas {
			got = append(got, tt.p.on(2, r))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d replicas on %v: got %v, want %v", tt.p.replicas, tt.p.devices, got, tt.want)
		}
	}
}

// TestFreeMemory holds what is left of a machine's memory, or of a container's, and what
// there is in all.
func TestFreeMemory(t *testing.T) {
	const machine = "MemTotal:       24000 kB\nMemFree:  10 kB\nMemAvailable:   20000 kB\nSwapTotal: 700 kB\nSwapFree:  500 kB\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
		all   int64
		own   int64
	}{
		{"a machine", map[string]string{"proc/meminfo": machine}, 20500 << 10, 24000 << 10, 24700 << 10},
		{"a container without a limit", map[string]string{"proc/meminfo": machine, "sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "7\n"}, 20500 << 10, 24000 << 10, 24700 << 10},
		{"a container", map[string]string{"proc/meminfo": machine, "sys/fs/cgroup/memory.max": "1000000\n", "sys/fs/cgroup/memory.current": "900000\n", "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 50000\n"}, 150000, 1000000, 1000000 + 700<<10},
		{"a full container", map[string]string{"sys/fs/cgroup/memory.max": "1000000\n", "sys/fs/cgroup/memory.current": "1000100\n"}, 0, 0, 0},
		{"nothing known", nil, math.MaxInt64, 0, 0},
		{"nonsense", map[string]string{"proc/meminfo": "MemAvailable: many kB\n\x00\n", "sys/fs/cgroup/memory.max": "\xff"}, math.MaxInt64, 0, 0},
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
		if got := ownMemory(root); got != tt.own {
			t.Errorf("%s: got %d with swap, want %d", tt.name, got, tt.own)
		}
	}
}
