package fit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestBroadcast: all devices get each bit of a state, and a net learns with it what it
// learns from a copy.
func TestBroadcast(t *testing.T) {
	s := open(t)
	defer func(was int) { minBroadcastBytes = was }(minBroadcastBytes)
	for i, tt := range append(kinds(), kind{net: models.MLP(3), data: digits(24, []int{28, 28, 1}, 1)}) {
		t.Run(tt.net.Name, func(t *testing.T) {
			losses := map[int][]float32{}
			for _, limit := range []int{0, 1 << 30} {
				minBroadcastBytes = limit
				n := attach(t, s, fmt.Sprint("net", i), tt.net, Config{Seed: 1, Devices: 4, AllDevices: true})
				n.packing = tt.devices == nil
				if err := n.Reset(); err != nil {
					t.Fatal(err)
				}
				data := load(t, n, fmt.Sprint("data", i), tt.data)
				h, err := n.Train(context.Background(), data, Train{Epochs: 2, Batch: 8})
				if err != nil {
					t.Fatal(err)
				}
				if h.Devices != 4 {
					t.Errorf("got %d devices, want 4", h.Devices)
				}
				losses[limit] = h.Losses
			}
			if got, want := losses[0], losses[1<<30]; !slices.Equal(got, want) {
				t.Errorf("got losses %v, want %v as from copies", got, want)
			}
		})
	}
	t.Run("bits", func(t *testing.T) {
		minBroadcastBytes = 0
		n := attach(t, s, "bits", models.MLP(3), Config{Seed: 1, Devices: 3, AllDevices: true})
		data := load(t, n, "data", digits(24, n.model.Input, 1))
		r, err := n.run(context.Background(), data, Train{Batch: 6}, plan.Call)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		want := make([][]uint32, len(r.state[0]))
		odd := []float32{float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(-1)), 1e-42, math.MaxFloat32}
		var state []*session.Array
		for i, slot := range n.slots(r.main.Part) {
			a := r.state[0][i]
			if slot.shape.DType == dtypes.Float32 {
				v := make([]float32, slot.shape.Size())
				for k := range v {
					v[k] = odd[k%len(odd)]
					want[i] = append(want[i], math.Float32bits(v[k]))
				}
				if a, err = s.Put(v, shapes.Make(dtypes.Float32, slot.shape.Dimensions...), 0); err != nil {
					t.Fatal(err)
				}
			}
			state = append(state, a)
		}
		all, err := r.broadcast(state)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 3 {
			t.Fatalf("got %d devices, want 3", len(all))
		}
		for d := range all {
			for i, a := range all[d] {
				if got, _ := a.DeviceNum(); int(got) != d {
					t.Errorf("array %d of device %d is on %d", i, d, got)
				}
				if want[i] == nil {
					continue
				}
				v := make([]float32, len(want[i]))
				if err := a.Values(v); err != nil {
					t.Fatal(err)
				}
				for k := range v {
					if got := math.Float32bits(v[k]); got != want[i][k] {
						t.Fatalf("device %d, array %d: element %d is %#x, want %#x", d, i, k, got, want[i][k])
					}
				}
			}
		}
	})
}
