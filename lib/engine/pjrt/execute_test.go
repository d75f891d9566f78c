package pjrt

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// A thousand donated steps in every mode, each tensor exact.
func TestSteps(t *testing.T) {
	c := client(t)
	const n, steps = 31, 1000
	p := compile(t, c, increments(n, 16, true))
	st := vectors(t, c, n, 16)
	donate := all(n)
	told := make(chan error, steps)
	notices := 0
	for i := range steps {
		mode := Mode(i % 3)
		var done func(error)
		if mode == Notify {
			done = func(err error) { told <- err }
			notices++
		}
		if err := p.Execute(st, st, donate, nil, mode, done); err != nil {
			t.Fatal(err)
		}
	}
	for range notices {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range st {
		if got, want := first(t, c, b, 16), float32(steps+i); got != want {
			t.Errorf("tensor %d: got %v, want %v", i, got, want)
		}
	}
	if m, err := p.MemoryStats(); err != nil || m.Aliased != n*64 {
		t.Errorf("got %+v, %v, want %d aliased bytes", m, err, n*64)
	}
	free(t, c, st...)
}

func TestDonationIsAChoice(t *testing.T) {
	c := client(t)
	p := compile(t, c, increments(2, 16, true))
	st, out := vectors(t, c, 2, 16), make([]Buffer, 2)
	if err := p.Execute(st, out, []bool{true, false}, nil, Wait, nil); err != nil {
		t.Fatal(err)
	}
	if got := first(t, c, st[1], 16); got != 1 {
		t.Errorf("argument that was kept: got %v, want 1", got)
	}
	if a, b := first(t, c, out[0], 16), first(t, c, out[1], 16); a != 1 || b != 2 {
		t.Errorf("outputs: got %v and %v, want 1 and 2", a, b)
	}
	free(t, c, st[1], out[0], out[1])
}

// Refused calls leave every argument alive, and the process too.
func TestExecuteRefuses(t *testing.T) {
	c := client(t)
	p := compile(t, c, increments(2, 16, true))
	other := must[*Client](t)(c.Plugin.NewClient(modest(c.Plugin)))
	defer other.Close()
	st := vectors(t, c, 2, 16)
	wrong := must[Buffer](t)(c.Upload(floats(4, 1), Float32, []int{4}, nil))
	two := make([]Buffer, 2)
	tests := []struct {
		name    string
		in, out []Buffer
		donate  []bool
		device  *Device
		mode    Mode
		want    string
	}{
		{"too few arguments at first", st[:1], two, nil, nil, Async, "supplied 1 arguments"},
		{"no arguments", nil, two, nil, nil, Async, "supplied 0 arguments"},
		{"no room", st, two[:1], nil, nil, Async, "room for 1 outputs, want 2"},
		{"no buffer", []Buffer{st[0], 0}, two, nil, nil, Async, "argument 1 is not a buffer"},
		{"marks", st, two, []bool{true}, nil, Async, "1 donation marks"},
		{"donated twice", []Buffer{st[0], st[0]}, two, []bool{true, true}, nil, Async, "passed twice"},
		{"donated and kept", []Buffer{st[0], st[0]}, two, []bool{false, true}, nil, Async, "passed twice"},
		{"mode", st, two, nil, nil, 9, "mode 9"},
		{"no done", st, two, nil, nil, Notify, "no done function"},
		{"device of another client", st, two, nil, other.Devices()[0], Async, "another client"},
		{"wrong size", []Buffer{st[0], wrong}, two, []bool{true, true}, nil, Wait, "incompatible size"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := p.Execute(tt.in, tt.out, tt.donate, tt.device, tt.mode, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "pjrt: execute: ") {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
			if two[0] != 0 || two[1] != 0 {
				t.Errorf("got outputs %v from a refused call, want none", two)
			}
		})
	}
	// The same buffer twice is fine when nobody gives it away.
	if err := p.Execute([]Buffer{st[1], st[1]}, two, nil, nil, Wait, nil); err != nil {
		t.Fatal(err)
	}
	if got := first(t, c, two[1], 16); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
	if err := p.Execute(st[:1], two, nil, nil, Wait, nil); err == nil || !strings.Contains(err.Error(), "got 1 arguments, want 2") {
		t.Errorf("too few arguments later: got %v, want the two numbers", err)
	}
	for i, b := range st {
		if got := first(t, c, b, 16); got != float32(i) {
			t.Errorf("argument %d after refused calls: got %v, want %d", i, got, i)
		}
	}
	free(t, c, append([]Buffer{wrong}, append(two, st...)...)...)
}

// An error on the device poisons what depends on it and comes out where somebody
// waits, in each mode, with its message (XLA may change the code on the way).
func TestFailureOnDevice(t *testing.T) {
	c := client(t)
	p := compile(t, c, `module @scalar { func.func @main(%x: tensor<f32> {jax.buffer_donor = true}) -> tensor<f32> {
 %y = stablehlo.add %x, %x : tensor<f32>
 return %y : tensor<f32> } }`)
	check := func(t *testing.T, err error) {
		t.Helper()
		if e := (*Error)(nil); !errors.As(err, &e) || e.Code == 0 || !strings.Contains(err.Error(), "left over") {
			t.Errorf("got error %v, want an *Error with the message of the failed buffer", err)
		}
	}
	const outOfMemory = 8
	run := func(mode Mode, donate bool, done func(error)) (in, out Buffer, err error) {
		in = errorBuffer(t, c, outOfMemory, "left over from something")
		st := []Buffer{in}
		out2 := make([]Buffer, 1)
		err = p.Execute(st, out2, []bool{donate}, nil, mode, done)
		return in, out2[0], err
	}
	t.Run("async", func(t *testing.T) {
		in, out, err := run(Async, false, nil)
		if err != nil { // some plugins look at once
			check(t, err)
			free(t, c, in)
			return
		}
		check(t, c.Download(out, make([]byte, 4)))
		ready := make(chan error)
		if err := c.Ready(out, func(err error) { ready <- err }); err != nil {
			t.Fatal(err)
		}
		check(t, <-ready)
		free(t, c, in, out)
	})
	t.Run("notify", func(t *testing.T) {
		told := make(chan error, 2)
		in, out, err := run(Notify, false, func(err error) { told <- err })
		if err != nil {
			check(t, err)
			free(t, c, in)
			return
		}
		check(t, <-told)
		free(t, c, in, out)
	})
	t.Run("wait", func(t *testing.T) {
		in, out, err := run(Wait, true, nil)
		check(t, err)
		if out != 0 {
			t.Errorf("got output %v of a failed run, want none", out)
		}
		if launched := (*LaunchedError)(nil); !errors.As(err, &launched) {
			free(t, c, in) // refused at once: the argument is still ours
		}
	})
}

// reduce adds up a number over all replicas.
const reduce = `module @reduce attributes {mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32} {
 func.func @main(%x: tensor<2xf32> {jax.buffer_donor = true}, %k: tensor<f32>) -> (tensor<2xf32>, tensor<ui32>) {
  %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %p = stablehlo.multiply %x, %b : tensor<2xf32>
  %s = "stablehlo.all_reduce"(%p) ({
   ^bb0(%a: tensor<f32>, %c: tensor<f32>):
    %t = stablehlo.add %a, %c : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  return %s, %id : tensor<2xf32>, tensor<ui32>
 }
}`

// Four devices of the CPU plugin run one program together, in every mode.
func TestReplicas(t *testing.T) {
	plugin := client(t).Plugin
	c, err := plugin.NewClient(map[string]any{"cpu_device_count": 4})
	if err != nil {
		t.Skipf("this plugin has no cpu_device_count (%v); use the CPU plugin of the wheel lammps-jax-pjrt-cpu==0.11.2", err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	checkOpen(t, c)
	for _, devices := range [][]int{nil, {2, 0, 3, 1}} {
		p := must[*Program](t)(c.Compile([]byte(reduce), CompileOptions{Replicas: 4, Devices: devices}))
		if p.NumOutputs() != 2 || p.Replicas() != 4 {
			t.Fatalf("got %d outputs of %d replicas, want 2 of 4", p.NumOutputs(), p.Replicas())
		}
		b := must[[]byte](t)(p.Serialize())
		loaded := must[*Program](t)(c.Deserialize(b, CompileOptions{Replicas: 4, Devices: devices}))
		for _, p := range []*Program{p, loaded} {
			testReduce(t, c, p, devices)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func testReduce(t *testing.T, c *Client, p *Program, devices []int) {
	t.Helper()
	if devices == nil {
		devices = []int{0, 1, 2, 3}
	}
	var in []Buffer
	for r, id := range devices {
		d := c.byID(id)
		in = append(in, must[Buffer](t)(c.Upload(floats(2, float32(r+1)), Float32, []int{2}, d)))
		in = append(in, must[Buffer](t)(c.Upload(floats(1, 0.5), Float32, nil, d)))
	}
	out := make([]Buffer, 8)
	donate := []bool{true, false, true, false, true, false, true, false}
	if err := p.Execute(in, out, []bool{true, false, true, false, true, false, false, false}, nil, Wait, nil); err == nil {
		t.Error("got no error for replicas that donate differently")
	}
	want := float32(5) // (1+2+3+4)/2, then doubled each time: four replicas, halved
	for _, mode := range []Mode{Async, Wait, Notify} {
		told := make(chan error, 4)
		if err := p.Execute(in, out, donate, nil, mode, func(err error) { told <- err }); err != nil {
			t.Fatalf("mode %d: %v", mode, err)
		}
		if mode == Notify {
			select {
			case err := <-told:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("done was not called within 20 s")
			}
			if len(told) != 0 {
				t.Error("done was called more than once")
			}
		}
		for r := range 4 {
			if got := first(t, c, out[2*r], 2); got != want {
				t.Errorf("mode %d replica %d: got %v, want %v", mode, r, got, want)
			}
			id := make([]byte, 4)
			if err := c.Download(out[2*r+1], id); err != nil || binary.LittleEndian.Uint32(id) != uint32(r) {
				t.Errorf("mode %d: got replica %v, %v, want %d", mode, id, err, r)
			}
			free(t, c, out[2*r+1])
			in[2*r] = out[2*r]
		}
		want *= 2
	}
	free(t, c, in...)
}

func TestBufferSet(t *testing.T) {
	var s bufferSet
	for n := range 200 {
		l := make([]Buffer, n)
		for i := range l {
			l[i] = Buffer(0x7f0000000000 + 48*i)
		}
		if s.twice(l) {
			t.Fatalf("%d different buffers: got twice", n)
		}
		if n > 1 {
			l[n-1] = l[n/2-1]
			if !s.twice(slices.Clone(l)) {
				t.Fatalf("%d buffers, one of them twice: not found", n)
			}
		}
	}
	if s.twice([]Buffer{math.MaxUint64, 1, 2}) {
		t.Error("got twice for three different buffers")
	}
}

// Memory that no machine has is an error with its own sentinel, and what was
// passed stays alive.
func TestOutOfMemory(t *testing.T) {
	c := client(t)
	p, err := c.Compile([]byte(`module @huge { func.func @main(%x: tensor<f32>) -> tensor<4096x1024x1024x1024xf32> {
 %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4096x1024x1024x1024xf32>
 return %y : tensor<4096x1024x1024x1024xf32> } }`), CompileOptions{})
	if err == nil {
		defer p.Close()
		x := must[Buffer](t)(c.Upload(floats(1, 3), Float32, nil, nil))
		err = p.Execute([]Buffer{x}, make([]Buffer, 1), []bool{true}, nil, Wait, nil)
		if launched := (*LaunchedError)(nil); !errors.As(err, &launched) {
			if got := first(t, c, x, 1); got != 3 {
				t.Errorf("argument after the failure: got %v, want 3", got)
			}
			free(t, c, x)
		}
	}
	if !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrUnimplemented) {
		t.Errorf("16 TB: got %v, want ErrOutOfMemory and nothing else", err)
	}
}
