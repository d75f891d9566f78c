package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestDevices holds that several devices find what one does with the same
// batches, for nets whose layers do not look across a batch; and that a net
// with batch norm, which takes the means of each part, learns.
func TestDevices(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	for i, tt := range kinds() {
		counts, batch := []int{2}, 10
		if tt.net.Name == "small" {
			tt.net, counts, batch = without(tt.net), []int{2, 4}, 12 // of 40 examples: the last batch has 4
		}
		t.Run(tt.net.Name, func(t *testing.T) {
			losses := func(devices int) []float32 {
				n := attach(t, s, fmt.Sprintf("net%d-%d", i, devices), tt.net, Config{Seed: 1, Devices: devices, AllDevices: true, FirstLook: true})
				data := load(t, n, fmt.Sprint("data", i), tt.data)
				h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 3, Batch: batch, Validation: data, LearningRate: 1e-3})
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

// TestDevicesNorm holds what batch norm does on several devices, which take the
// statistics of their shards: after a step the running mean is the mean over the
// devices, which is the batch's as on one device, and so is the running variance,
// whose shards spread less than the batch; and each device has the same state.
func TestDevicesNorm(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	const batch, channels = 8, 2
	net := models.Net{Name: "norm", Input: []int{4, 4, channels}, Layers: []models.Layer{
		models.BatchNorm{Name: "bn1"}, // of the data themselves, so that its means can be done here
		models.Conv2D{Name: "conv1", Channels: 3, Kernel: 3, Same: true},
		models.BatchNorm{Name: "bn2", Act: models.ReLU},
		models.GlobalAvgPool{Name: "pool"},
		models.Dense{Name: "output", Units: 10}}}
	data := formulaData("norm", batch, 4*4*channels, 0)
	x := data.X.([]float32)
	each := len(x) / batch
	for i := range x {
		x[i] += float32(i/each) * float32(1+i%channels) // shards differ
	}
	// moments are mean and variance of a channel of some examples.
	moments := func(x []float32, channel int) (mean, variance float64) {
		n := float64(len(x) / channels)
		for i := channel; i < len(x); i += channels {
			mean += float64(x[i]) / n
		}
		for i := channel; i < len(x); i += channels {
			variance += (float64(x[i]) - mean) * (float64(x[i]) - mean) / (n - 1)
		}
		return mean, variance
	}
	for _, devices := range []int{1, 2, 4} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d devices, packed %t", devices, packed), func(t *testing.T) {
				n := attach(t, s, fmt.Sprintf("net%d-%t", devices, packed), net, Config{Seed: 1, Devices: devices, AllDevices: true, FirstLook: true})
				n.packing = packed
				r, err := n.run(ctx, load(t, n, "data", data), Train{Batch: batch, InOrder: true}, plan.Call)
				if err != nil {
					t.Fatal(err)
				}
				defer r.close()
				if err := errors.Join(r.train(), r.bindState()); err != nil {
					t.Fatal(err)
				}
				if r.history.Steps != 1 || len(r.state) != devices || r.main.Packed != packed {
					t.Fatalf("got %d steps, %d devices, packed %t, want 1, %d, %t", r.history.Steps, len(r.state), r.main.Packed, devices, packed)
				}
				after, err := n.Weights()
				if err != nil {
					t.Fatal(err)
				}
				got := map[string][]float32{}
				for _, w := range after {
					got[w.Name] = w.Data
				}
				for c := range channels {
					var mean, variance float64 // of the shards, on average
					for d := range devices {
						m, v := moments(x[d*len(x)/devices:(d+1)*len(x)/devices], c)
						mean, variance = mean+m/float64(devices), variance+v/float64(devices)
					}
					whole, most := moments(x, c)
					if math.Abs(mean-whole) > 1e-6 || devices > 1 && variance > most/1.5 {
						t.Fatalf("data: shards have mean %g and variance %g, want %g and less than %g", mean, variance, whole, most)
					}
					for _, number := range []struct {
						name      string
						got, want float64
					}{
						{"mean", float64(got["bn1/mean"][c]), 0.1 * whole},
						{"variance", float64(got["bn1/variance"][c]), 0.9 + 0.1*variance},
					} {
						if d := number.got - number.want; math.Abs(d) > 1e-5*number.want || d != d {
							t.Errorf("running %s of channel %d: got %g, want %g", number.name, c, number.got, number.want)
						}
					}
				}
				for i, v := range n.slots(r.main.Part) {
					var first []float32
					for d := range devices {
						if v.shape.DType != dtypes.Float32 {
							continue
						}
						l := make([]float32, v.shape.Size())
						if err := r.state[d][i].Values(l); err != nil {
							t.Fatal(err)
						}
						if first == nil {
							first = l
						}
						if !slices.Equal(l, first) {
							t.Errorf("%s on device %d: got %v, want %v as on device 0", v.name, d, l, first)
						}
					}
				}
			})
		}
	}
}

func TestDevicesRefused(t *testing.T) {
	t.Parallel()
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
		h, err := n.WithContext(ctx).Fit(load(t, n, "d", digits(20, n.model.Input, 1)), Train{Batch: tt.batch})
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

// TestFresh holds that steps whose results go to memory of their own give the
// losses and weights of those that work in place, on one device and on two, and
// leave no array behind.
func TestFresh(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	for i, tt := range kinds() {
		for _, devices := range tt.devices {
			t.Run(fmt.Sprint(tt.net.Name, " on ", devices), func(t *testing.T) {
				train := func(fresh bool) (numbers []float32) {
					n := attach(t, s, fmt.Sprintf("net%d-%d-%t", i, devices, fresh), tt.net, Config{Seed: 1, Devices: devices, AllDevices: true, FirstLook: true})
					n.loop = plan.SingleSteps
					data := load(t, n, fmt.Sprint("data", i), tt.data)
					var alive []int64
					for range 3 { // from the second on, chunks of several steps, two at a time
						r, err := n.run(ctx, data, Train{Epochs: 3, Batch: 8, LearningRate: 1e-3}, plan.Call)
						if err != nil {
							t.Fatal(err)
						}
						if r.main.Form = plan.InPlace; fresh {
							r.main.Form = plan.Fresh
						}
						err = r.train()
						r.close()
						if err != nil {
							t.Fatal(err)
						}
						numbers = append(numbers, r.history.Losses...)
						alive = append(alive, live(t, s))
					}
					if alive[1] != alive[2] {
						t.Errorf("fresh %t: got %d bytes after two runs, %d after three: want as many", fresh, alive[1], alive[2])
					}
					for _, v := range n.layout.variables {
						if v.trainable {
							a, err := s.Array(n.name + "/" + v.name)
							if err != nil {
								t.Fatal(err)
							}
							w := make([]float32, v.shape.Size())
							if err := a.Values(w); err != nil {
								t.Fatal(err)
							}
							numbers = append(numbers, w...)
						}
					}
					return numbers
				}
				want := train(false)
				for k, got := range train(true) {
					if got != want[k] {
						t.Fatalf("number %d of %d: got %v, want %v", k, len(want), got, want[k])
					}
				}
			})
		}
	}
}

// live is what a session's arrays take when all that nobody refers to has been
// given back: the least of some looks, as finalizers take their time.
func live(t *testing.T, s *session.Session) int64 {
	least := int64(math.MaxInt64)
	for range 10 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		st, err := s.Status()
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, st.Space(s.Space()).Bytes)
	}
	return least
}

// TestBroadcast: what goes to devices of other hosts comes to all of them as it is on the
// first, of every type that states and data sets have.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "broadcast", models.MLP(4), Config{Seed: 1})
	const devices = 4
	var l []*session.Array
	want := []any{[]float32{1.5, -2, float32(math.NaN())}, []int32{-7, math.MaxInt32}, []uint64{math.MaxUint64, 0, 3}, []bool{true, false}, []uint8{0, 255, 7}}
	for _, flat := range want {
		v := reflect.ValueOf(flat)
		a, err := s.Put(flat, shapes.Make(dtypes.FromGoType(v.Type().Elem()), v.Len()), 0)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, a)
	}
	all, err := n.broadcast(l, devices)
	if err != nil {
		t.Fatal(err)
	}
	defer all.free()
	for d := range devices {
		for i, a := range all[d] {
			got := reflect.MakeSlice(reflect.TypeOf(want[i]), reflect.ValueOf(want[i]).Len(), reflect.ValueOf(want[i]).Len()).Interface()
			if err := a.Values(got); err != nil {
				t.Fatal(err)
			}
			if on, _ := a.DeviceNum(); int(on) != d || fmt.Sprint(got) != fmt.Sprint(want[i]) {
				t.Errorf("device %d: got %v on device %d, want %v", d, got, on, want[i])
			}
		}
	}
}
