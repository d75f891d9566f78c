package device

import (
	"errors"
	"slices"
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
		w := Worker{accelerators: accelerators{pools: tt.pools, deviceLimit: 4 << 30}, totals: totals{bytes: tt.held}}
		if got := w.little(tt.bytes); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

// TestIsFull holds when a device without memory for four bytes is a lost one.
func TestIsFull(t *testing.T) {
	none := &pjrt.Error{Code: 8, Name: "RESOURCE_EXHAUSTED"}
	lost := errors.New("CUDA's driver answered 719")
	for _, tt := range []struct {
		name string
		pool pool
		want error
	}{
		{"full", answers{PoolStats: pjrt.PoolStats{Total: 80 << 30, Free: 10 << 20, Held: 60 << 30, Used: 60<<30 - 4}}, nil},
		{"room in the pool", answers{PoolStats: pjrt.PoolStats{Total: 80 << 30, Free: 10 << 20, Held: 60 << 30, Used: 59 << 30}}, none},
		{"room beside it", answers{PoolStats: pjrt.PoolStats{Total: 80 << 30, Free: 19 << 30, Held: 60 << 30, Used: 60 << 30}}, none},
		{"no answer", answers{err: lost}, lost},
		{"XLA's own allocator", nil, nil},
	} {
		var w Worker
		if tt.pool != nil {
			w.pools = []gpuMemory{{pool: tt.pool}}
		}
		if got := w.isFull(0, none); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// answers is a pool that has figures, or an error.
type answers struct {
	pjrt.PoolStats
	err error
}

func (a answers) Memory() (pjrt.PoolStats, error) { return a.PoolStats, a.err }
func (a answers) Keep(int64) error                { return a.err }
func (a answers) Trim() error                     { return a.err }

// Fits has pieces of Free bytes.
func (a answers) Fits(sizes []int64) bool { return len(sizes) == 0 || slices.Max(sizes) <= a.Free }

// TestChoosePools holds on which GPUs memory comes from CUDA's pools: where it is scarce.
func TestChoosePools(t *testing.T) {
	const gb = 1 << 30
	large, small := pjrt.PoolStats{Total: 80 * gb, Free: 79 * gb}, pjrt.PoolStats{Total: 24 * gb, Free: 23 * gb}
	shared := pjrt.PoolStats{Total: 80 * gb, Free: 5 * gb}
	for _, tt := range []struct {
		name    string
		options map[string]any
		gpus    []pool
		want    []int64 // limits in GB
	}{
		{"a large GPU", nil, []pool{answers{PoolStats: large}}, nil},
		{"a small one", nil, []pool{answers{PoolStats: small}}, []int64{18}},
		{"a share of a large one", map[string]any{fractionOption: 0.25}, []pool{answers{PoolStats: large}}, []int64{20}},
		{"one that others use", nil, []pool{answers{PoolStats: shared}}, []int64{60}},
		{"a large and a small one", nil, []pool{answers{PoolStats: large}, answers{PoolStats: small}}, []int64{60, 18}},
		{"the small one of both", map[string]any{visibleOption: []int64{1}}, []pool{answers{PoolStats: large}, answers{PoolStats: small}}, []int64{18}},
		{"the large one of both", map[string]any{visibleOption: []int64{0}}, []pool{answers{PoolStats: large}, answers{PoolStats: small}}, nil},
		{"one without a pool", nil, []pool{answers{PoolStats: small}, nil}, nil},
		{"one that does not answer", nil, []pool{answers{err: errors.New("lost")}}, nil},
		{"a GPU that is not there", map[string]any{visibleOption: []int64{7}}, []pool{answers{PoolStats: small}}, nil},
		{"none", nil, nil, nil},
	} {
		var got []int64
		for _, g := range choosePools(tt.options, len(tt.gpus), func(gpu int) (pool, error) {
			if gpu >= len(tt.gpus) || tt.gpus[gpu] == nil {
				return nil, pjrt.ErrUnimplemented
			}
			return tt.gpus[gpu], nil
		}) {
			got = append(got, g.limit/gb)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got limits %v, want %v", tt.name, got, tt.want)
		}
	}
}
