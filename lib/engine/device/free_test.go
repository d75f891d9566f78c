package device

import (
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

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

// TestInPieces holds when a program has no room although enough is free: where what it needs
// in one piece is larger than any that is there. It is not asked where much is free.
func TestInPieces(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		name    string
		p       program
		free    int64
		largest int64
		want    bool
	}{
		{"all in one piece", program{replicas: 1, made: made{need: 60 * mb, scratch: 60 * mb}}, 70 * mb, 70 * mb, false},
		{"none that large", program{replicas: 1, made: made{need: 60 * mb, scratch: 60 * mb}}, 70 * mb, 50 * mb, true},
		{"much is free", program{replicas: 1, made: made{need: 60 * mb, scratch: 60 * mb}}, 120 * mb, 50 * mb, false},
		{"outputs are smaller", program{replicas: 1, made: made{need: 60 * mb, scratch: 10 * mb}, outBytes: []int64{5 * mb, 25 * mb, 20 * mb}}, 70 * mb, 25 * mb, false},
		{"one output is not", program{replicas: 1, made: made{need: 60 * mb, scratch: 10 * mb}, outBytes: []int64{5 * mb, 26 * mb, 20 * mb}}, 70 * mb, 25 * mb, true},
		{"nothing is needed", program{replicas: 1}, 0, 0, false},
		{"of two devices one", program{replicas: 2, made: made{need: 60 * mb, scratch: 60 * mb}}, 70 * mb, 50 * mb, true},
		{"a device without a pool", program{replicas: 1, devices: []int{7}, made: made{need: 60 * mb, scratch: 60 * mb}}, 70 * mb, 50 * mb, false},
	} {
		w := Worker{accelerators: accelerators{pools: []gpuMemory{{pool: answers{PoolStats: pjrt.PoolStats{Free: tt.largest}}}, {pool: answers{PoolStats: pjrt.PoolStats{Free: tt.largest}}}}}}
		if got := w.inPieces(&tt.p, 0, tt.free); got != tt.want {
			t.Errorf("%s: got %t; asked for %v", tt.name, got, tt.p.pieces())
		}
		all := int64(0)
		for _, n := range tt.p.pieces() {
			all += n
		}
		if all != tt.p.need {
			t.Errorf("%s: pieces %v are not what is needed", tt.name, tt.p.pieces())
		}
	}
}

// TestTooSmall holds what XLA's own allocator cannot have in one piece.
func TestTooSmall(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    pjrt.MemoryStats
		want bool
	}{
		{"of what it holds", pjrt.MemoryStats{Limit: 60, Pool: 55, LargestFree: 10}, false},
		{"of what it may ask for", pjrt.MemoryStats{Limit: 60, Pool: 50, LargestFree: 9}, false},
		{"neither", pjrt.MemoryStats{Limit: 60, Pool: 51, LargestFree: 9}, true},
		{"it holds nothing yet", pjrt.MemoryStats{Limit: 6}, false},
		{"not told", pjrt.MemoryStats{Limit: 60, Pool: 60, LargestFree: -1}, false},
		{"no limit", pjrt.MemoryStats{Limit: -1, Pool: 60}, false},
	} {
		if got := tooSmall(tt.m, 10); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
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

// TestLent holds which arrays there are only because somebody reads them.
func TestLent(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    array
		undo bool
		want bool
	}{
		{"a handle", array{buf: 1, refs: 1}, false, false},
		{"a handle, and a reader", array{buf: 1, refs: 2, pins: 1}, false, false},
		{"a reader", array{buf: 1, refs: 1, pins: 1}, false, true},
		{"what a cell has replaced", array{buf: 1, refs: 1, pins: 1}, true, false},
		{"that, and a reader", array{buf: 1, refs: 2, pins: 2}, true, true},
		{"no memory", array{refs: 1, pins: 1}, false, false},
	} {
		w, a := &Worker{holdings: holdings{spaces: map[string]*space{}}}, tt.a
		w.all.prev, w.all.next = &w.all, &w.all
		w.spaces["s"] = &space{}
		w.add(&a)
		a.refs = tt.a.refs
		if tt.undo {
			w.spaces["s"].undo = &undo{names: map[string]*array{"x": &a}}
		}
		if got := w.lent(); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

// TestReaders holds how long is waited for readers: until the last has ended, what waits is
// cancelled, or the worker ends.
func TestReaders(t *testing.T) {
	last := func(w *Worker, a *array) {
		a.refs++ // there is no device here that the array could be given back to
		w.unpin(a)
	}
	for _, tt := range []struct {
		name string
		do   func(w *Worker, c *conn, a *array)
		left bool // the reader is there still
	}{
		{"the reader ends", func(w *Worker, c *conn, a *array) { last(w, a) }, false},
		{"another reader ends first", func(w *Worker, c *conn, a *array) {
			w.pin(a)
			w.unpin(a)
			w.mu.Unlock()
			time.Sleep(time.Second)
			w.mu.Lock()
			last(w, a)
		}, false},
		{"a Stop", func(w *Worker, c *conn, a *array) {
			w.mu.Unlock()
			w.cancel("", 7)
			w.mu.Lock()
		}, true},
		{"the session ends", func(w *Worker, c *conn, a *array) { w.ending = true; w.unpinned.Broadcast() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Worker{holdings: holdings{spaces: map[string]*space{}}}
				w.unpinned = sync.NewCond(&w.mu)
				w.all.prev, w.all.next = &w.all, &w.all
				c := &conn{w: w, clientInfo: clientInfo{pid: 7}, requests: requests{read: 3}, sock: &net.UnixConn{}}
				w.conns = map[*conn]struct{}{c: {}}
				a := &array{buf: 1, pins: 1}
				w.add(a)
				a.refs = 1
				go func() {
					time.Sleep(time.Second)
					w.mu.Lock()
					defer w.mu.Unlock()
					tt.do(w, c, a)
				}()
				w.mu.Lock()
				defer w.mu.Unlock()
				if !c.readers(3) {
					t.Error("nobody was waited for")
				}
				if got := a.pins > 0; got != tt.left {
					t.Errorf("a reader is left: got %t, want %t", got, tt.left)
				}
			})
		})
	}
}

func TestMegabytes(t *testing.T) {
	for n, want := range map[int64]string{9_999: "9999 bytes", 10_000: "0.010 MB", 2_400_000: "2.4 MB", 9_999_000_000: "9999.0 MB", 10_000_000_000: "10.0 GB"} {
		if got := megabytes(n); got != want {
			t.Errorf("%d bytes: got %s, want %s", n, got, want)
		}
	}
}
