package xla

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

func TestMain(m *testing.M) {
	devicetest.FirstLook()
	code := m.Run()
	if server.socket != "" {
		os.RemoveAll(filepath.Dir(server.socket))
	}
	os.Exit(code)
}

// server is one worker for all tests.
var server struct {
	sync.Once
	socket string
	err    error
}

// cpu is XLA, by a session in this process: the Go backend has no DynamicSlice.
func cpu(t *testing.T) compute.Backend {
	t.Helper()
	plugin := devicetest.Plugin(t)
	server.Do(func() { server.socket, server.err = devicetest.Worker(plugin, session.Version, 1) })
	if server.err != nil {
		t.Fatal(server.err)
	}
	s, err := session.Config{Socket: server.socket, Space: t.Name(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Backend()
}

// lowered is a backend whose graphs have a lowering.
type lowered struct {
	compute.Backend
	lowering Lowering
}

func (l lowered) Lowering() models.Lowering { return l.lowering }

// TestScan holds that the two ways of the gradient, with what the gates got kept and
// computed again, give the same outputs, cells and gradients.
func TestScan(t *testing.T) {
	t.Parallel()
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
					return append([]*Node{h, c}, gradient.Final(loss, z, biases, recurrent)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Call()
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

// TestScanNaN holds that a number that is none stays so, in its sequence and in no
// other: what XLA's CPU compiler makes of a function may lose it as it optimizes.
func TestScanNaN(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	if flags := "--xla_backend_optimization_level=3"; os.Getenv("XLA_FLAGS") != flags {
		again := exec.Command("/proc/self/exe", "-test.run=^TestScanNaN$", "-test.v")
		again.Env = append(os.Environ(), "XLA_FLAGS="+flags)
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestScanNaN/") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, keep := range []bool{true, false} {
		for _, u := range []int{3, 64} {
			t.Run(fmt.Sprint(keep, u), func(t *testing.T) {
				const n, length, which = 4, 3, 2
				exec, err := NewExec(backend, func(g *Graph) []*Node {
					wave := func(dims ...int) *Node { return Sin(IotaFull(g, shapes.Make(dtypes.Float32, dims...))) }
					first := Equal(IotaFull(g, shapes.Make(dtypes.Int32, length*n, 4*u)), Const(g, int32(which*4*u)))
					z := Add(wave(length*n, 4*u), Where(first, Const(g, float32(math.NaN())), Const(g, float32(0))))
					h, c := scan(z, wave(4*u), wave(u, 4*u), wave(n, u), wave(n, u), keep)
					return append([]*Node{h, c}, gradient.Final(ReduceAllSum(h), z)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Call()
				if err != nil {
					t.Fatal(err)
				}
				for k, row := range []int{u, u, 4 * u} { // outputs, cells, the gradient of z
					out[k].ConstFlatData(func(flat any) {
						seen := 0
						for i, v := range flat.([]float32) {
							if !math.IsNaN(float64(v)) {
								continue
							}
							if seen++; i/row%n != which {
								t.Errorf("result %d: number %d is NaN, of sequence %d: want only %d's", k, i, i/row%n, which)
								return
							}
						}
						if least := (length - 1) * row; seen < least { // at the first place one cell's
							t.Errorf("result %d: %d numbers are NaN, want %d or more", k, seen, least)
						}
					})
				}
			})
		}
	}
}

// TestRecurrence holds the recurrence of two layers, one behind the other, to the same
// written out, both ways. In bfloat16 the way back of each has numbers that no other
// closure of the graph may use.
func TestRecurrence(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	const n, length, u = 3, 4, 2
	for _, tt := range []struct {
		kind dtypes.DType
		off  float32
	}{{dtypes.Float32, 1e-5}, {dtypes.BFloat16, 0.1}} {
		exec, err := NewExec(backend, func(g *Graph) []*Node {
			wave := func(step float64, dims ...int) *Node {
				return ConvertDType(Sin(MulScalar(AddScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 1), step)), tt.kind)
			}
			z, recurrent, v := wave(0.7, length, n, 4*u), wave(0.3, u, 4*u), wave(0.9, length, n, u)
			var out []*Node
			for _, layer := range []func(z *Node) *Node{
				func(z *Node) *Node {
					return models.Recurrence{Kind: "LSTM", Z: z, Recurrent: recurrent}.By(Lowering{})
				},
				func(z *Node) *Node {
					return models.Recurrence{Kind: "LSTM", Z: z, Recurrent: recurrent}.By(models.Plain{})
				},
			} {
				h := layer(z)
				h = layer(Concatenate([]*Node{h, h, h, h}, -1))
				for _, x := range append([]*Node{h}, gradient.Final(ReduceAllSum(ConvertDType(Mul(h, v), dtypes.Float32)), z, recurrent)...) {
					out = append(out, ConvertDType(x, dtypes.Float32))
				}
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			out[i].MustConstFlatData(func(got any) {
				out[i+3].MustConstFlatData(func(want any) {
					for k, w := range want.([]float32) {
						if g := got.([]float32)[k]; !(max(g-w, w-g) <= tt.off) {
							t.Errorf("%s, output %d: got number %d %v, want %v", tt.kind, i, k, g, w)
						}
					}
				})
			})
		}
	}
}
