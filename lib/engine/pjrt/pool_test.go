package pjrt

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// gpus plays CUDA's driver: it has two GPUs of 80 bytes, the first without a pool.
type gpus struct {
	fails string
	kept  uint64
	depth int     // contexts pushed
	taken uintptr // bytes of arrays, which have their sizes as addresses
	users int     // of a context
}

func (g *gpus) call(function string, args ...uintptr) uintptr {
	if function == g.fails {
		return 2 // CUDA_ERROR_OUT_OF_MEMORY
	}
	switch function {
	case "cuDeviceGetCount":
		*at[int32](args[0]) = 2
	case "cuDeviceGetAttribute":
		*at[int32](args[0]) = int32(args[2]) - 10
	case "cuDeviceGet":
		*at[int32](args[0]) = int32(args[1]) + 10
	case "cuDeviceGetDefaultMemPool":
		*at[uintptr](args[0]) = args[1] * 100
	case "cuDevicePrimaryCtxRetain":
		*at[uintptr](args[0]) = 7
		g.users++
	case "cuDevicePrimaryCtxRelease_v2":
		g.users--
	case "cuMemPoolSetAttribute":
		if args[0] != 1100 {
			return 1
		}
		g.kept = *at[uint64](args[2])
	case "cuMemPoolGetAttribute":
		*at[uint64](args[2]) = map[uintptr]uint64{poolHeld: 30, poolUsed: 20}[args[1]]
	case "cuCtxPushCurrent_v2":
		if args[0] != 7 {
			return 1
		}
		g.depth++
	case "cuCtxPopCurrent_v2":
		g.depth--
	case "cuMemGetInfo_v2":
		*at[uint64](args[0]), *at[uint64](args[1]) = 45, 80
	case "cuMemPoolTrimTo":
		if args[0] != 1100 || args[1] != 0 {
			return 1
		}
	case "cuMemAllocFromPoolAsync":
		if args[2] != 1100 {
			return 1
		}
		if args[1] == 0 {
			return 1 // CUDA_ERROR_INVALID_VALUE
		}
		if g.taken+args[1] > 60 {
			return outOfMemory
		}
		*at[uintptr](args[0]) = args[1]
		g.taken += args[1]
	case "cuMemFreeAsync":
		g.taken -= args[0]
	default:
		return notFound
	}
	return 0
}

// TestPool holds what CUDA's driver is asked for, and what its errors say.
func TestPool(t *testing.T) {
	if err := openLibc(); err != nil {
		t.Fatal(err)
	}
	var g gpus
	if n := driver(g.call).gpus(); n != 2 {
		t.Errorf("got %d GPUs, want 2", n)
	}
	if n := driver((&gpus{fails: "cuDeviceGetCount"}).call).gpus(); n != 0 {
		t.Errorf("a driver that cannot count: got %d GPUs", n)
	}
	if _, err := driver(g.call).pool(0); !errors.Is(err, ErrUnimplemented) {
		t.Errorf("a GPU without a pool: got %v", err)
	}
	p, err := driver(g.call).pool(1)
	if err != nil {
		t.Fatal(err)
	}
	if p.device != 11 {
		t.Errorf("GPU 1: got device %d, want 11", p.device)
	}
	if err := p.Keep(64); err != nil || g.kept != 64 {
		t.Errorf("keep 64: kept %d, %v", g.kept, err)
	}
	if err := p.Keep(-1); err != nil || g.kept != 0 {
		t.Errorf("keep -1: kept %d, %v", g.kept, err)
	}
	if err := p.Trim(); err != nil {
		t.Error(err)
	}
	want := PoolStats{Total: 80, Free: 45, Held: 30, Used: 20}
	if got, err := p.Memory(); err != nil || got != want {
		t.Errorf("memory: got %+v, %v, want %+v", got, err, want)
	}
	for _, function := range []string{"cuDeviceGetDefaultMemPool", "cuMemPoolGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemGetInfo_v2"} {
		g.fails = function
		if _, err := p.Memory(); err == nil || !strings.Contains(err.Error(), function+": CUDA's driver answered 2") {
			t.Errorf("memory when %s fails: got %v", function, err)
		}
	}
	g.fails = ""
	for _, tt := range []struct {
		fails string
		sizes []int64
		want  bool
	}{
		{"", nil, true},
		{"", []int64{20, 20, 20}, true},
		{"", []int64{20, 20, 21}, false},
		{"", []int64{61}, false},
		{"", []int64{20, 0, 70}, true}, // not CUDA's word for it
		{"cuDevicePrimaryCtxRetain", []int64{61}, true},
		{"cuMemAllocFromPoolAsync", []int64{1}, false},
		{"cuMemFreeAsync", []int64{61}, false},
		{"cuMemFreeAsync", []int64{20, 41}, true}, // nor is this
	} {
		g.fails, g.taken = tt.fails, 0
		if got := p.Fits(tt.sizes); got != tt.want || g.taken != 0 && tt.fails != "cuMemFreeAsync" {
			t.Errorf("arrays of %v when %q fails: got %t, and %d bytes left", tt.sizes, tt.fails, got, g.taken)
		}
	}
	if g.depth != 0 || g.users != 0 {
		t.Errorf("%d contexts are left behind, and %d users of them", g.depth, g.users)
	}
	for _, function := range []string{"cuDeviceGet", "cuDeviceGetAttribute"} {
		g.fails = function
		if _, err := driver(g.call).pool(1); err == nil || !strings.Contains(err.Error(), function) {
			t.Errorf("a pool when %s fails: got %v", function, err)
		}
	}
}

// TestNoDriver holds that a machine without a GPU has no pools, and says why.
func TestNoDriver(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Skip("needs a machine without an NVIDIA driver: this one has it, and TestPool plays one")
	}
	if n := GPUs(); n != 0 {
		t.Errorf("got %d GPUs", n)
	}
	if _, err := PoolOf(0); err == nil || !strings.Contains(err.Error(), "libcuda") {
		t.Errorf("got %v, want that there is no libcuda", err)
	}
}

// TestLoadSaysWhy holds that a library which cannot be loaded has a reason, however many threads
// are at it.
func TestLoadSaysWhy(t *testing.T) {
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 300 {
				if _, err := load("libnowhere.so.1"); err == nil || !strings.Contains(err.Error(), "libnowhere") {
					t.Errorf("got %v, want the library's name", err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	all.Wait()
}
