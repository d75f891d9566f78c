package fit

import (
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

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
			store, err := n.lay()
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
