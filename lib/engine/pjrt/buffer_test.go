package pjrt

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// What goes up comes down, for every type, rank and size, by both ways.
func TestTransfers(t *testing.T) {
	c := client(t)
	tests := []struct {
		name string
		kind DType
		dims []int
	}{
		{"scalar", Float32, nil},
		{"no elements", Float32, []int{0}},
		{"no elements, three dimensions", BFloat16, []int{3, 0, 5}},
		{"one bool", Bool, []int{1}},
		{"int8", Int8, []int{7}},
		{"int16", Int16, []int{3, 3}},
		{"int32", Int32, []int{5, 2}},
		{"int64", Int64, []int{5}},
		{"uint8", Uint8, []int{2, 3, 5, 7}},
		{"uint16", Uint16, []int{9}},
		{"uint32", Uint32, []int{1, 1}},
		{"uint64", Uint64, []int{2}},
		{"float16", Float16, []int{33}},
		{"float64", Float64, []int{4, 4}},
		{"bfloat16", BFloat16, []int{10}},
		{"complex64", Complex64, []int{3}},
		{"complex128", Complex128, []int{2, 2}},
		{"eight dimensions", Float32, []int{1, 2, 1, 3, 1, 2, 1, 2}},
		{"just below a megabyte", Uint8, []int{stageBelow - 1}},
		{"a megabyte", Float32, []int{512, 512}},
		{"16 MB", Float32, []int{4 << 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := must[int](t)(Shape{tt.kind, tt.dims}.bytes())
			data, dst := make([]byte, n), make([]byte, n)
			for i := range data {
				data[i] = byte(i*7+i>>8) & 1 // bools may be 0 and 1 only
			}
			b := must[Buffer](t)(c.Upload(data, tt.kind, tt.dims, nil))
			if err := c.Download(b, dst); err != nil || !bytes.Equal(dst, data) {
				t.Errorf("download: got other bytes or %v", err)
			}
			free(t, c, b)

			told := make(chan error, 1)
			done := func(err error) { told <- err }
			b = must[Buffer](t)(c.UploadAsync(data, tt.kind, tt.dims, c.Devices()[0], done))
			if err := <-told; err != nil {
				t.Fatal(err)
			}
			clear(dst)
			if err := c.DownloadAsync(b, dst, done); err != nil {
				t.Fatal(err)
			}
			if err := <-told; err != nil || !bytes.Equal(dst, data) {
				t.Errorf("async download: got other bytes or %v", err)
			}
			free(t, c, b)
		})
	}
}

func TestTransferRefuses(t *testing.T) {
	c := client(t)
	b := vectors(t, c, 1, 16)[0]
	up := func(n int, kind DType, dims ...int) func() error {
		return func() error { _, err := c.Upload(make([]byte, n), kind, dims, nil); return err }
	}
	ignore := func(error) {}
	tests := []struct {
		name string
		call func() error
		want string
	}{
		{"too few bytes", up(15, Float32, 4), "got 15 bytes, want 16 for tensor<4xf32>"},
		{"too many bytes", up(17, Float32, 4), "got 17 bytes, want 16"},
		{"bytes for none", up(4, Float32, 0), "got 4 bytes, want 0"},
		{"type 0", up(4, 0, 4), "element type invalid"},
		{"type of half a byte", up(4, 21, 4), "element type dtype 21"},
		{"negative", up(4, Float32, -1), "negative dimension"},
		{"overflow", up(4, Float32, 1<<40, 1<<40), "larger than any memory"},
		{"overflow beside none", up(0, Float32, 1<<40, 1<<40, 0), "larger than any memory"},
		{"rank", up(4, Float32, make([]int, 33)...), "33 dimensions, want at most 32"},
		{"no buffer to download", func() error { return c.Download(0, nil) }, "download: got no buffer"},
		{"room", func() error { return c.Download(b, make([]byte, 63)) }, "download: INVALID_ARGUMENT"},
		{"no room", func() error { return c.Download(b, nil) }, "download: INVALID_ARGUMENT"},
		{"async room", func() error { return c.DownloadAsync(b, make([]byte, 63), ignore) }, "download: INVALID_ARGUMENT"},
		{"async without done", func() error { return c.DownloadAsync(b, make([]byte, 64), nil) }, "no done function"},
		{"upload without done", func() error { _, err := c.UploadAsync(floats(1, 1), Float32, nil, nil, nil); return err }, "no done function"},
		{"no buffer to free", func() error { return c.Free(0) }, "free: got no buffer"},
		{"ready without done", func() error { return c.Ready(b, nil) }, "no done function"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.call(); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "pjrt: ") {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	free(t, c, b)
}

// A window of shared memory, as the session's clients have.
func TestMappedMemory(t *testing.T) {
	c := client(t)
	const n = 8 << 20
	mem, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	for i := range mem {
		mem[i] = byte(i >> 3)
	}
	told := make(chan error, 1)
	b := must[Buffer](t)(c.UploadAsync(mem[:n/2], Uint8, []int{n / 2}, nil, func(err error) { told <- err }))
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	if err := c.DownloadAsync(b, mem[n/2:], func(err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil || !bytes.Equal(mem[:n/2], mem[n/2:]) {
		t.Errorf("got other bytes or %v", err)
	}
	free(t, c, b)
}

func TestCopyToDevice(t *testing.T) {
	c, err := client(t).Plugin.NewClient(map[string]any{"cpu_device_count": int64(2)})
	if err != nil {
		t.Skipf("this plugin has no cpu_device_count (%v); use the CPU plugin of the wheel lammps-jax-pjrt-cpu==0.11.2", err)
	}
	defer c.Close()
	p := must[*Program](t)(c.Compile([]byte(increments(1, 4, false)), CompileOptions{}))
	defer p.Close()
	d := c.Devices()[1]
	a := must[Buffer](t)(c.Upload(floats(4, 6), Float32, []int{4}, nil))
	b := must[Buffer](t)(c.CopyToDevice(a, d))
	out := make([]Buffer, 1)
	if err := p.Execute([]Buffer{b}, out, nil, d, Async, nil); err != nil { // portable: runs on the second device
		t.Fatal(err)
	}
	if got := first(t, c, out[0], 4); got != 7 {
		t.Errorf("got %v, want 7", got)
	}
	if err := p.Execute([]Buffer{a}, out, nil, d, Wait, nil); err == nil {
		t.Error("got no error for an argument on another device than the program")
	}
	free(t, c, a, b, out[0])
}

// A done function may block, use the package and grow its stack, and holds up
// neither XLA nor the others.
func TestDoneMayBlock(t *testing.T) {
	c := client(t)
	long := compile(t, c, loop(3))
	x := must[Buffer](t)(c.Upload(floats(1, 1), Float32, nil, nil))
	const n = 50
	gate := make(chan struct{})
	var wg sync.WaitGroup
	var failed atomic.Value
	for range n {
		out := make([]Buffer, 2)
		wg.Add(1)
		err := long.Execute([]Buffer{x}, out, nil, nil, Notify, func(err error) {
			defer wg.Done()
			<-gate
			dst := make([]byte, 4)
			if err = errors.Join(err, c.Download(out[1], dst)); err != nil || dst[0] != 3 {
				failed.Store(errors.Join(errors.New("in done"), err))
			}
			runtime.GC()
			free(t, c, out...)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// All of them block, and this one comes through.
	told := make(chan error, 1)
	if err := c.Ready(x, func(err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-told:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a blocked done held up another one for 20 s")
	}
	close(gate)
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Error(err)
	}
	free(t, c, x)
}

// Done functions by the thousand leave no threads and no entries behind.
func TestManyDones(t *testing.T) {
	c := client(t)
	p := compile(t, c, increments(1, 16, true))
	st := vectors(t, c, 1, 16)
	n := 20000
	if testing.Short() {
		n = 2000
	}
	var wg sync.WaitGroup
	var bad atomic.Int64
	for i := range n {
		wg.Add(1)
		if err := p.Execute(st, st, []bool{true}, nil, Notify, func(err error) {
			if err != nil {
				bad.Add(1)
			}
			wg.Done()
		}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
	if bad.Load() != 0 {
		t.Errorf("got %d errors, want none", bad.Load())
	}
	if got := first(t, c, st[0], 16); got != float32(n) {
		t.Errorf("got %v, want %d", got, n)
	}
	completions.mu.Lock()
	left := len(completions.table)
	completions.mu.Unlock()
	if left != 0 {
		t.Errorf("got %d completions left, want none", left)
	}
	free(t, c, st...)
}

func TestSizes(t *testing.T) {
	if got := unsafe.Sizeof(namedValue{}); got != namedValueSize {
		t.Errorf("a named value has %d bytes, want %d", got, namedValueSize)
	}
	tests := []struct {
		shape Shape
		text  string
		bytes int
	}{
		{Shape{Float32, nil}, "tensor<f32>", 4},
		{Shape{Bool, []int{3, 5}}, "tensor<3x5xi1>", 15},
		{Shape{Complex64, []int{2}}, "tensor<2xcomplex<f32>>", 16},
		{Shape{BFloat16, []int{0, 9}}, "tensor<0x9xbf16>", 0},
	}
	for _, tt := range tests {
		n, err := tt.shape.bytes()
		if got := tt.shape.String(); got != tt.text || n != tt.bytes || err != nil {
			t.Errorf("got %s of %d bytes, %v, want %s of %d", got, n, err, tt.text, tt.bytes)
		}
	}
}

// An adopted array is the memory it was made of: nothing is copied, done comes
// when the array is gone, and a program that is given it by donation leaves the
// memory alone and keeps nothing in it.
func TestAdopt(t *testing.T) {
	c := client(t)
	if c.Platform() != "cpu" {
		t.Skip("only the CPU plugin adopts memory; set GAIDEN_PLUGIN to that of the wheel lammps-jax-pjrt-cpu==0.11.2")
	}
	const n = 1 << 20
	p := compile(t, c, increments(1, n, true))
	for _, tt := range []struct {
		name   string
		donate bool
	}{{"kept", false}, {"donated", true}} {
		t.Run(tt.name, func(t *testing.T) {
			mem := must[[]byte](t)(syscall.Mmap(-1, 0, 4*n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))
			defer syscall.Munmap(mem)
			data := unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), n)
			for i := range data {
				data[i] = float32(i)
			}
			told := make(chan error, 1)
			b := must[Buffer](t)(c.Adopt(mem, Float32, []int{n}, nil, func(err error) { told <- err }))
			out := []Buffer{0}
			if err := p.Execute([]Buffer{b}, out, []bool{tt.donate}, nil, Wait, nil); err != nil {
				t.Fatal(err)
			}
			if !tt.donate {
				select {
				case <-told:
					t.Fatal("done was called while the array lives")
				case <-time.After(20 * time.Millisecond):
				}
				free(t, c, b)
			}
			select {
			case err := <-told:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("done was not called when the array was gone")
			}
			if data[n-1] != n-1 {
				t.Errorf("adopted memory: got %v at its end, want %v", data[n-1], n-1)
			}
			clear(mem) // it is ours again
			got := make([]byte, 4*n)
			if err := c.Download(out[0], got); err != nil {
				t.Fatal(err)
			}
			for i, v := range unsafe.Slice((*float32)(unsafe.Pointer(&got[0])), n) {
				if v != float32(i)+1 {
					t.Fatalf("result at %d: got %v, want %v", i, v, float32(i)+1)
				}
			}
			free(t, c, out[0])
		})
	}
}
