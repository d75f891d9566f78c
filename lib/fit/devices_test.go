package fit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"gaiden/lib/models"
)

// TestDevices holds that several devices find what one does with the same
// batches, for nets whose layers do not look across a batch; and that a net
// with batch norm, which takes the means of each part, learns.
func TestDevices(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	for i, tt := range tiny() {
		if tt.net.Name == "small" {
			tt.net = without(tt.net)
		}
		counts := []int{2}
		if i == 0 {
			counts = []int{2, 4}
		}
		t.Run(tt.net.Name, func(t *testing.T) {
			losses := func(devices int) []float32 {
				n := attach(t, s, fmt.Sprintf("net%d-%d", i, devices), tt.net, Config{Seed: 1, Devices: devices, AllDevices: true})
				data := load(t, n, fmt.Sprint("data", i), tt.data)
				h, err := n.Train(ctx, data, Train{Epochs: 3, Batch: 12, Validation: data, LearningRate: 1e-3}) // 40 examples: the last batch has 4
				if err != nil {
					t.Fatal(err)
				}
				if h.Devices != devices || h.Steps != 12 {
					t.Errorf("history: got %d devices, %d steps, want %d, 12", h.Devices, h.Steps, devices)
				}
				return append(h.Losses, float32(h.Last().Validation.Loss))
			}
			want := losses(1)
			for _, devices := range counts {
				got := losses(devices)
				if tt.net.Name == "resnet" {
					if first, last := got[0]+got[1]+got[2], got[8]+got[9]+got[10]; last >= first {
						t.Errorf("%d devices: loss of 3 steps went from %v to %v, want it to become smaller", devices, first, last)
					}
					continue
				}
				for k := range want {
					if math.Abs(float64(got[k]-want[k])) > 1e-4*math.Max(1, float64(want[k])) {
						t.Errorf("%d devices: loss %d is %v, want %v as on one", devices, k, got[k], want[k])
						break
					}
				}
			}
		})
	}
}

func TestDevicesRefused(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	tests := []struct {
		name    string
		devices int
		batch   int
		all     bool
		want    string
		note    string
	}{
		{"too many", 5, 10, true, "5 devices: the session has 4", ""},
		{"odd batch", 4, 10, true, "a batch of 10 for 4 devices: want a multiple, such as 8", ""},
		{"slower", 2, 10, false, "", "used 1 of 2 devices"},
	}
	for i, tt := range tests {
		n := attach(t, s, fmt.Sprint("net", i), models.MLP(3), Config{Devices: tt.devices, AllDevices: tt.all})
		h, err := n.Train(ctx, load(t, n, "d", digits(20, n.model.Input, 1)), Train{Batch: tt.batch})
		switch {
		case tt.want != "":
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
			}
		case err != nil || !strings.Contains(h.Note, tt.note) || h.Devices != 1:
			t.Errorf("%s: got %v, %v, want a note with %q", tt.name, h, err, tt.note)
		}
	}
}
