package fit

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
)

// First values by programs of their own are those that GoMLX's one program for
// the whole store gives, bit for bit, and so is the state of the random numbers
// after them. (Of normal's layers some have one shape, and so one program.)
func TestFirstValues(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, m := range []models.Net{models.SeedCNN(), models.MLP(20), models.SineLSTM(5, 10), normal()} {
		t.Run(m.Name, func(t *testing.T) {
			n := attach(t, s, "first"+m.Name, m, Config{Seed: 7})
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
			got, err := n.Weights()
			if err != nil {
				t.Fatal(err)
			}
			store, err := n.buildLayout()
			if err != nil {
				t.Fatal(err)
			}
			if err := store.SetRNGStateFromSeed(7); err != nil {
				t.Fatal(err)
			}
			if err := store.InitializeVariables(s.Backend(), nil); err != nil {
				t.Fatal(err)
			}
			slots := n.floats()
			for i, s := range slots {
				v, err := store.GetVariable(s.path).Value()
				if err != nil {
					t.Fatal(err)
				}
				if want := tensors.MustCopyFlatData[float32](v); !slices.Equal(got[i].Data, want) {
					t.Errorf("%s: got %v …, want %v …", s.name, got[i].Data[:1], want[:1])
				}
			}
			state, err := n.state([]slot{{name: "rng", shape: store.GetVariable(rng).Shape()}})
			if err != nil {
				t.Fatal(err)
			}
			last := make([]uint64, 3)
			if err := state[0].Values(last); err != nil {
				t.Fatal(err)
			}
			v, err := store.GetVariable(rng).Value()
			if err != nil {
				t.Fatal(err)
			}
			if want := tensors.MustCopyFlatData[uint64](v); !slices.Equal(last, want) {
				t.Errorf("state of the random numbers: got %v, want %v", last, want)
			}
		})
	}
}

// TestNormal holds that what is drawn from the normal distribution is Go's float64
// arithmetic of the same uniform numbers, rounded once: so each device gives the same.
func TestNormal(t *testing.T) {
	t.Parallel()
	s := open(t)
	m := models.Net{Name: "net", Input: []int{300}, Layers: []models.Layer{models.Dense{Name: "output", Units: 400, NoBias: true, Init: models.He}}}
	weights, err := attach(t, s, "normal", m, Config{Seed: 7}).Weights()
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(7); err != nil {
		t.Fatal(err)
	}
	draws, err := model.CallOnceN(s.Backend(), store, func(_ *model.Scope, x *Node) []*Node {
		shape := shapes.Make(dtypes.Float32, 300, 400)
		first := store.RandomUniform(x.Graph(), shape)
		return []*Node{first, store.RandomUniform(x.Graph(), shape)}
	}, float32(0))
	if err != nil {
		t.Fatal(err)
	}
	radius, angle := tensors.MustCopyFlatData[float32](draws[0]), tensors.MustCopyFlatData[float32](draws[1])
	for i, got := range weights[0].Data {
		r := math.Sqrt(-2 * math.Log(max(float64(radius[i]), 0x1p-33)))
		if want := float32(r*math.Cos(2*math.Pi*float64(angle[i]))) * float32(math.Sqrt(2./300)); got != want {
			t.Fatalf("weight %d: got %v, want %v of %v and %v", i, got, want, radius[i], angle[i])
		}
	}
}

// TestFirstWeightsOfGPU holds that a seed begins on a CPU with the weights with which it
// began on an H200, bit for bit: bench trial -repeats has recorded their sums there.
func TestFirstWeightsOfGPU(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/first-weights-h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Repeats []struct {
			Case  string
			First uint32
		}
	}
	if err := json.Unmarshal(b, &recorded); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{}
	for _, r := range recorded.Repeats {
		want[r.Case] = r.First
	}
	s := open(t)
	for name, net := range map[string]models.Net{
		"MLP b100": models.MLP(1000), "SeedCNN b8": models.SeedCNN(), "LeNet5 b100": models.LeNet5(), "KerasCNN b128": models.KerasCNN(),
		"LSTM5 b20": models.SineLSTM(5, 100), "LSTM128 b64": models.SineLSTM(128, 100), "Peaks b40000": models.Peaks(),
		"ResNet14 b32": models.ResNet("ResNet14", 1, 1, 1, 1), "ResNet50 b128": models.ResNet50(), "ResNet152 b2048": models.ResNet152(), "DeepPose b128": models.DeepPose(14),
	} {
		n := attach(t, s, net.Name, net, Config{Seed: 1})
		weights, err := n.Weights()
		if err != nil {
			t.Fatal(err)
		}
		if got := checksum(weights); got != want[name] {
			t.Errorf("%s: got %08x, want %08x as on the H200", name, got, want[name])
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

// checksum is the CRC-32 of weights' bits.
func checksum(weights []Tensor) uint32 {
	sum := crc32.NewIEEE()
	for _, w := range weights {
		binary.Write(sum, binary.LittleEndian, w.Data) // neither returns an error
	}
	return sum.Sum32()
}
