package fit

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fit/result"
	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// stored is an array of a file, of any type.
type stored struct {
	name, dtype string
	dims        []int
	values      []float64
}

// store writes a file.
func store(t *testing.T, path string, all ...stored) {
	t.Helper()
	h, data := &safetensors.Header{}, map[string][]byte{}
	for _, s := range all {
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: s.name, DType: s.dtype, Shape: s.dims})
		b := []byte{}
		for _, v := range s.values {
			switch s.dtype {
			case "F32":
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			case "BF16":
				b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(v))>>16))
			case "F16": // of what it has as normal numbers
				bits := math.Float32bits(float32(v))
				half := uint16(bits>>16&0x8000) | uint16((int(bits>>23&0xff)-127+15)<<10) | uint16(bits>>13&0x3ff)
				b = binary.LittleEndian.AppendUint16(b, half)
			case "F64":
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			case "I8", "U8":
				b = append(b, byte(int(v)))
			case "I16":
				b = binary.LittleEndian.AppendUint16(b, uint16(int16(v)))
			case "I64":
				b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
			default:
				t.Fatalf("no %s", s.dtype)
			}
		}
		data[s.name] = b
	}
	w, err := safetensors.Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range w.Tensors {
		if err := w.Write(i, data[x.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreAllOrNothing holds that a file's floats are restored, of whatever width,
// and that any other file is refused, with what is wrong in it, before a weight or the
// optimizer has changed.
func TestRestoreAllOrNothing(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	n := attach(t, s, "lin", models.Net{Name: "lin", Input: []int{4}, Layers: []models.Layer{
		models.Dense{Name: "out", Units: 2}, models.BatchNorm{Name: "bn"}}}, Config{Seed: 1, FirstLook: true})
	if _, err := n.WithContext(ctx).Fit(load(t, n, "d", Data{X: make([]float32, 8), Y: []int32{0, 1}}), Train{}); err != nil {
		t.Fatal(err)
	}
	weight := stored{"out.weight", "F32", []int{2, 4}, []float64{0.5, 0.25, -0.5, 2, 1, 2, 3, 4}}
	bias := stored{"out.bias", "F32", []int{2}, []float64{1, -1}}
	norm := []stored{{"bn.weight", "F32", []int{2}, []float64{1, 1}}, {"bn.bias", "F32", []int{2}, []float64{0.5, 0.25}},
		{"bn.running_mean", "F32", []int{2}, []float64{1, 2}}, {"bn.running_var", "F32", []int{2}, []float64{4, 2}}}
	counter := stored{"bn.num_batches_tracked", "I64", nil, []float64{7}}
	as := func(dtype string, all ...stored) []stored {
		all = slices.Clone(all)
		for i := range all {
			all[i].dtype = dtype
		}
		return all
	}
	named := func(name func(string) string, all ...stored) []stored {
		all = slices.Clone(all)
		for i := range all {
			all[i].name = name(all[i].name)
		}
		return all
	}
	whole := append([]stored{weight, bias}, norm...)
	shape := func(x stored, dims ...int) stored { x.dims = dims; return x }
	for _, tt := range []struct {
		name string
		file []stored
		want []string // of the error; nil: none
	}{
		{"F32", whole, nil},
		{"F16", as("F16", whole...), nil},
		{"BF16", as("BF16", whole...), nil},
		{"F64", as("F64", whole...), nil},
		{"of two widths", append(as("F16", weight), append(norm, bias)...), nil},
		{"with PyTorch's counter", append(whole, counter), nil},
		{"names of ours", append([]stored{{"out/weights", "F32", []int{4, 2}, []float64{0.5, 1, 0.25, 2, -0.5, 3, 2, 4}}, bias}, norm...), nil},
		{"only biases", append(norm, bias), []string{"missing: out.weight [2 4]"}},
		{"nothing", nil, []string{"missing: out.weight [2 4], out.bias [2], bn.weight [2]", "bn.running_var [2]"}},
		{"something else", append(whole, stored{"extra", "F32", []int{1}, []float64{1}}), []string{"surplus: extra [1]"}},
		{"something empty", append(whole, stored{"extra", "F32", []int{0, 3}, nil}), []string{"surplus: extra [0 3]"}},
		{"weights of both names", append(whole, stored{"out/weights", "F32", []int{4, 2}, make([]float64, 8)}), []string{"surplus: out.weight [2 4]"}},
		{"a counter of no layer", append(whole, stored{"out.num_batches_tracked", "I64", nil, []float64{7}}), []string{"surplus: out.num_batches_tracked []"}},
		{"integers", append(as("I64", weight), append(norm, bias)...), []string{"out.weight has elements of I64, want one of BF16, F16, F32, F64, F8_E4M3, F8_E5M2, I16, I8, U16, U8"}},
		{"turned around", append([]stored{shape(weight, 4, 2), bias}, norm...), []string{"out.weight is [4 2], want [2 4]"}},
		{"flat", append([]stored{shape(weight, 8), bias}, norm...), []string{"out.weight is [8], want [2 4]"}},
		{"beyond float32", append([]stored{weight, {"out.bias", "F64", []int{2}, []float64{1, 1e39}}}, norm...), []string{`"out.bias": number 1 is 1e+39`}},
		{"behind module.", named(func(s string) string { return "module." + s }, append(whole, counter)...),
			[]string{"missing: out.weight [2 4]", "surplus: ", "module.out.weight [2 4]", `did you mean the names after "module."?`, "model.module.state_dict()"}},
		{"without their layer", named(func(s string) string { _, s, _ = strings.Cut(s, "."); return s }, weight, bias),
			[]string{"surplus: ", "weight [2 4]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := []Tensor{{Name: "out/weights", Dims: []int{4, 2}, Data: []float32{1, 2, 3, 4, 5, 6, 7, 8}}, {Name: "out/biases", Dims: []int{2}, Data: []float32{9, 8}}}
			if err := n.SetWeights(first); err != nil {
				t.Fatal(err)
			}
			before, list := flatWeights(t, n), names(t, s)
			path := filepath.Join(t.TempDir(), "x.safetensors")
			store(t, path, tt.file...)
			_, err := n.LoadWeights(path)
			if tt.want != nil {
				for _, want := range tt.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got error %v, want %q in it", err, want)
					}
				}
				var wrong *result.ArchitectureError
				if !strings.Contains(tt.name, "beyond") && (!errors.As(err, &wrong) || !wrong.Weights || wrong.File != path) {
					t.Errorf("got a %T, want an ArchitectureError of %s", err, path)
				}
				if got := flatWeights(t, n); !slices.Equal(got, before) || !slices.Equal(names(t, s), list) {
					t.Errorf("after a refusal: got %v, want %v", got, before)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p, err := n.WithContext(ctx).Predict([]float32{1, 2, 3, 4})
			if err != nil {
				t.Fatal(err)
			}
			// 0.5+0.5-1.5+8 + 1 = 8.5, 1+4+9+16 - 1 = 29; (x-mean)/√(variance+1e-5) + offset
			for i, want := range []float64{(8.5-1)/2 + 0.5, (29-2)/math.Sqrt2 + 0.25} {
				if got := float64(p.Output[i]); math.Abs(got-want) > 1e-2 {
					t.Errorf("output %d: got %v, want %v", i, got, want)
				}
			}
		})
	}
}

func flatWeights(t *testing.T, n *Net) (all []float32) {
	t.Helper()
	l, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range l {
		all = append(all, w.Data...)
	}
	return all
}

// TestRestoreKeepsOptimizer holds that a file that is refused leaves the optimizer's
// state and the steps that it has counted.
func TestRestoreKeepsOptimizer(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	n := attach(t, s, "net", models.Peaks(), Config{FirstLook: true})
	data := load(t, n, "d", Data{X: make([]float32, 8), Y: make([]float32, 4)})
	if _, err := n.WithContext(ctx).Fit(data, Train{Epochs: 3}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	store(t, path)
	for _, f := range []func() error{
		func() error { _, err := n.LoadWeights(path); return err },
		func() error { return n.SetWeights(nil) },
		func() error { _, err := n.LoadWeights(path, weights.Map{Only: []string{"none"}}); return err },
		func() error {
			l, err := n.Weights()
			if err != nil {
				return nil
			}
			return n.SetWeights(append(l, l[0]))
		},
	} {
		if err := f(); err == nil {
			t.Error("got no error")
		}
		a, err := s.Array("net/step")
		if err != nil {
			t.Fatal(err)
		}
		step := make([]int32, 1)
		if err := a.Values(step); err != nil || step[0] != 3 {
			t.Errorf("steps: got %d, %v, want 3", step[0], err)
		}
	}
}

// TestRestoreLayers holds that single layers come from a file that has more and less.
func TestRestoreLayers(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "two", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "f1", Units: 2}, models.Dense{Name: "f10", Units: 2}, models.Dense{Name: "out", Units: 1}}}
	n := attach(t, s, "two", net, Config{Seed: 1, FirstLook: true})
	path := filepath.Join(t.TempDir(), "x.safetensors")
	store(t, path, stored{"f1.weight", "F32", []int{2, 2}, []float64{1, 2, 3, 4}}, stored{"f1.bias", "F32", []int{2}, []float64{5, 6}},
		stored{"out.weight", "F32", []int{7, 2}, make([]float64, 14)}, stored{"head.bias", "I64", []int{1}, []float64{1}})
	before := flatWeights(t, n)
	for _, tt := range []struct {
		layers []string
		want   string
	}{
		{nil, "head.bias"}, {[]string{"out"}, "out.weight is [7 2], want [1 2]"}, {[]string{"f1", "f10"}, "missing: f10.weight [2 2], f10.bias [2]"},
		{[]string{"f1", "f2"}, `Only: no variable matches "f2"`}, {[]string{""}, `Only: no variable matches ""`},
	} {
		if _, err := n.LoadWeights(path, weights.Map{Only: tt.layers}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.layers, err, tt.want)
		}
	}
	if _, err := n.LoadWeights(path, weights.Map{Only: []string{"f1"}}); err != nil {
		t.Fatal(err)
	}
	want := append([]float32{1, 3, 2, 4, 5, 6}, before[6:]...)
	if got := flatWeights(t, n); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRestoreShards holds that a directory of several files with their index is read.
func TestRestoreShards(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "lin", models.Net{Name: "lin", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "out", Units: 1}}}, Config{FirstLook: true})
	dir := t.TempDir()
	store(t, filepath.Join(dir, "model-00001-of-00002.safetensors"), stored{"out.weight", "BF16", []int{1, 2}, []float64{1, 2}})
	store(t, filepath.Join(dir, "model-00002-of-00002.safetensors"), stored{"out.bias", "F32", []int{1}, []float64{3}})
	index := `{"metadata":{"total_size":8},"weight_map":{"out.weight":"model-00001-of-00002.safetensors","out.bias":"model-00002-of-00002.safetensors"}}`
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(dir); err != nil {
		t.Fatal(err)
	}
	if got := flatWeights(t, n); !slices.Equal(got, []float32{1, 2, 3}) {
		t.Errorf("got %v, want 1, 2, 3", got)
	}
}
