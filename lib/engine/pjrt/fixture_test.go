package pjrt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

const noPlugin = "GAIDEN_PLUGIN is not set: this test needs an XLA CPU plugin; unpack the wheel lammps-jax-pjrt-cpu==0.11.2 " +
	"(pip download, then unzip) and set GAIDEN_PLUGIN to its pjrt_c_api_cpu_plugin.so"

// A binary of this test started with GAIDEN_PJRT_CHILD does one thing and ends.
func TestMain(m *testing.M) {
	if kind := os.Getenv("GAIDEN_PJRT_CHILD"); kind == "node" {
		fmt.Println(node())
		os.Exit(3)
	} else if kind != "" {
		child(kind)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var shared = sync.OnceValues(func() (*Client, error) {
	p, err := Load(os.Getenv("GAIDEN_PLUGIN"))
	if err != nil {
		return nil, err
	}
	return p.NewClient(modest(p))
})

// modest are the options of a client that leaves memory to others: on CUDA one
// would take three quarters of the device.
func modest(p *Plugin) map[string]any {
	if strings.Contains(filepath.Base(p.Path), "cuda") {
		return map[string]any{"preallocate": false}
	}
	return nil
}

// client gives the client that all tests share, and checks at the end of the
// test that its buffers and programs are closed.
func client(t testing.TB) *Client {
	t.Helper()
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip(noPlugin)
	}
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	checkOpen(t, c)
	return c
}

func checkOpen(t testing.TB, c *Client) {
	b0, p0 := c.Open()
	t.Cleanup(func() {
		if b, p := c.Open(); !t.Failed() && (b != b0 || p != p0) {
			t.Errorf("got %d buffers and %d programs open after the test, want %d and %d as before", b, p, b0, p0)
		}
	})
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func compile(t testing.TB, c *Client, text string) *Program {
	t.Helper()
	p := must[*Program](t)(c.Compile([]byte(text), CompileOptions{}))
	t.Cleanup(func() { p.Close() })
	return p
}

// increments is a program that adds one to each of n vectors.
func increments(n, length int, donor bool) string {
	var in, out, names, body []string
	mark := ""
	if donor {
		mark = " {jax.buffer_donor = true}"
	}
	kind := fmt.Sprintf("tensor<%dxf32>", length)
	for i := range n {
		in = append(in, fmt.Sprintf("%%a%d: %s%s", i, kind, mark))
		out = append(out, kind)
		names = append(names, fmt.Sprintf("%%r%d", i))
		body = append(body, fmt.Sprintf("  %%r%d = stablehlo.add %%a%d, %%one : %s", i, i, kind))
	}
	return fmt.Sprintf("module @increments {\n func.func @main(%s) -> (%s) {\n  %%one = stablehlo.constant dense<1.0> : %s\n%s\n  return %s : %s\n }\n}\n",
		strings.Join(in, ", "), strings.Join(out, ", "), kind, strings.Join(body, "\n"), strings.Join(names, ", "), strings.Join(out, ", "))
}

// loop runs a body of matrix products that many times: long, and on a thread of
// XLA, since no plugin takes it for cheap.
func loop(trips int) string {
	return fmt.Sprintf(`module @loop { func.func @main(%%x: tensor<f32>) -> (tensor<f32>, tensor<i32>) {
 %%i0 = stablehlo.constant dense<0> : tensor<i32>
 %%n = stablehlo.constant dense<%d> : tensor<i32>
 %%one = stablehlo.constant dense<1> : tensor<i32>
 %%s = stablehlo.constant dense<0.001> : tensor<128x128xf32>
 %%b = stablehlo.broadcast_in_dim %%x, dims = [] : (tensor<f32>) -> tensor<128x128xf32>
 %%r:2 = stablehlo.while(%%i = %%i0, %%v = %%b) : tensor<i32>, tensor<128x128xf32>
  cond { %%c = stablehlo.compare LT, %%i, %%n : (tensor<i32>, tensor<i32>) -> tensor<i1>
   stablehlo.return %%c : tensor<i1> }
  do { %%i2 = stablehlo.add %%i, %%one : tensor<i32>
   %%d = stablehlo.dot_general %%v, %%s, contracting_dims = [1] x [0] : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
   %%t = stablehlo.tanh %%d : tensor<128x128xf32>
   stablehlo.return %%i2, %%t : tensor<i32>, tensor<128x128xf32> }
 %%sl = stablehlo.slice %%r#1 [0:1, 0:1] : (tensor<128x128xf32>) -> tensor<1x1xf32>
 %%f = stablehlo.reshape %%sl : (tensor<1x1xf32>) -> tensor<f32>
 return %%f, %%r#0 : tensor<f32>, tensor<i32> } }`, trips)
}

func floats(n int, v float32) []byte {
	b := make([]byte, 0, 4*n)
	for range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func float(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// vectors uploads n vectors of values 0, 1, 2 and so on.
func vectors(t testing.TB, c *Client, n, length int) []Buffer {
	t.Helper()
	l := make([]Buffer, n)
	for i := range l {
		l[i] = must[Buffer](t)(c.Upload(floats(length, float32(i)), Float32, []int{length}, nil))
	}
	return l
}

func free(t testing.TB, c *Client, l ...Buffer) {
	t.Helper()
	for _, b := range l {
		if err := c.Free(b); err != nil {
			t.Error(err)
		}
	}
}

func all(n int) []bool {
	b := make([]bool, n)
	for i := range b {
		b[i] = true
	}
	return b
}

// first downloads b, a vector of float32, and gives its first element.
func first(t testing.TB, c *Client, b Buffer, length int) float32 {
	t.Helper()
	dst := make([]byte, 4*length)
	if err := c.Download(b, dst); err != nil {
		t.Fatal(err)
	}
	return float(dst, 0)
}

// errorBuffer is a scalar float32 that some computation failed to make: what
// follows from an error on the device, without the error.
func errorBuffer(t testing.TB, c *Client, code int32, message string) Buffer {
	t.Helper()
	const defaultMemory, createErrorBuffer slot = 33, 118
	w, err := c.Plugin.get(defaultMemory, c.devices[0].handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	var mem arena
	defer mem.free()
	a := struct {
		head
		client       uintptr
		code, _      int32
		message, n   uintptr
		dims, rank   uintptr
		kind, _      int32
		layout       uintptr
		memory, made uintptr
		spare
	}{client: c.handle, code: code, message: mem.bytes([]byte(message)), n: uintptr(len(message)), kind: int32(Float32), memory: w[0]}
	a.size = unsafe.Sizeof(a)
	if err := c.Plugin.call(createErrorBuffer, unsafe.Pointer(&a)); err != nil {
		if errors.Is(err, ErrUnimplemented) {
			t.Skipf("this plugin cannot make a failed buffer (%v); the CPU plugin of the wheel lammps-jax-pjrt-cpu==0.11.2 can", err)
		}
		t.Fatal(err)
	}
	c.buffers.Add(1)
	return Buffer(a.made)
}
