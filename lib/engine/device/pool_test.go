package device

import (
	"testing"

	"gaiden/lib/engine/pjrt"
)

// TestLeftOf holds what is left of a device that has a limit of its own.
func TestLeftOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    pjrt.MemoryStats
		want int64
	}{
		{"some", pjrt.MemoryStats{Limit: 64, InUse: 10}, 54},
		{"full", pjrt.MemoryStats{Limit: 64, InUse: 65}, 0},
		{"no limit", pjrt.MemoryStats{Limit: -1, InUse: 10}, -1},
		{"limit not told", pjrt.MemoryStats{InUse: 10}, -1},
		{"use not told", pjrt.MemoryStats{Limit: 64, InUse: -1}, -1},
	} {
		if got := leftOf(tt.m); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestPooled holds what is left of a GPU that others use, too. Figures in GB.
func TestPooled(t *testing.T) {
	for _, tt := range []struct {
		name string
		used int64
		pool pjrt.PoolStats
		want int64
	}{
		{"nobody else", 10, pjrt.PoolStats{Total: 80, Free: 69, Held: 10, Used: 10}, 50},
		{"another program has much", 10, pjrt.PoolStats{Total: 80, Free: 20, Held: 10, Used: 10}, 20},
		{"the pool keeps what is unused", 10, pjrt.PoolStats{Total: 80, Free: 20, Held: 25, Used: 10}, 35},
		{"the limit is reached", 61, pjrt.PoolStats{Total: 80, Free: 19, Held: 61, Used: 61}, 0},
		{"another program has the rest", 10, pjrt.PoolStats{Total: 80, Free: 0, Held: 10, Used: 11}, 0},
	} {
		got := pooled(pjrt.MemoryStats{InUse: tt.used, Limit: 0, LargestFree: 0}, tt.pool, 60)
		if got.LargestFree != tt.want || got.Limit != 60 || got.Pool != tt.pool.Held || got.InUse != tt.used {
			t.Errorf("%s: got %+v, want %d left", tt.name, got, tt.want)
		}
	}
}

// TestLittle holds for what it is looked whether there is memory: always, once arrays take
// half of a limit that is kept here.
func TestLittle(t *testing.T) {
	gpu := []gpuMemory{{limit: 4 << 30}}
	for _, tt := range []struct {
		name        string
		pools       []gpuMemory
		held, bytes int64
		want        bool
	}{
		{"a small array", gpu, 1 << 30, 1 << 20, true},
		{"a large one", gpu, 1 << 30, hungry, false},
		{"a small one beside many", gpu, 2 << 30, 1 << 20, false},
		{"a CPU", nil, 64 << 30, 1 << 20, true},
		{"a large one on a CPU", nil, 0, hungry, false},
	} {
		w := Worker{pools: tt.pools, bytes: tt.held, deviceLimit: 4 << 30}
		if got := w.little(tt.bytes); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
