package models

import (
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device"
	"gaiden/lib/session"
)

// cpu is XLA, by a session in this process: the Go backend has no DynamicSlice.
func cpu(t *testing.T) compute.Backend {
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if plugin == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	w := &device.Worker{Version: session.Version, Generation: 1, Plugin: device.Plugin{Path: plugin, Device: "cpu"}, Socket: filepath.Join(t.TempDir(), "s")}
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	go w.Run(l)
	s, err := session.Config{Socket: w.Socket, NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Backend()
}

// TestScan holds that the two ways of the gradient, with what the gates got kept and
// computed again, give the same outputs, cells and gradients.
func TestScan(t *testing.T) {
	backend := cpu(t)
	for _, length := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			const n, u = 3, 4
			run := func(keep bool) (numbers []float32) {
				exec, err := NewExec(backend, func(g *Graph) []*Node {
					wave := func(step float64, dims ...int) *Node {
						x := IotaFull(g, shapes.Make(dtypes.Float32, dims...))
						return Sin(MulScalar(AddScalar(x, 1), step))
					}
					z, biases, recurrent := wave(0.7, length*n, 4*u), wave(0.4, 4*u), wave(0.3, u, 4*u)
					h, c := scan(z, biases, recurrent, wave(0.2, n, u), wave(0.1, n, u), keep)
					loss := ReduceAllSum(Mul(h, wave(0.9, length, n, u)))
					return append([]*Node{h, c}, Gradient(loss, z, biases, recurrent)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Exec()
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range out {
					x.ConstFlatData(func(flat any) { numbers = append(numbers, flat.([]float32)...) })
				}
				return numbers
			}
			got, want := run(true), run(false)
			if size := 2*length*n*u + length*n*4*u + 4*u + u*4*u; len(got) != size || len(want) != size {
				t.Fatalf("got %d and %d numbers, want %d", len(got), len(want), size)
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-6 {
					t.Fatalf("number %d of %d: kept %v, computed again %v", i, len(want), got[i], want[i])
				}
			}
		})
	}
}
