package fit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gaiden/lib/fit/result"
	"gaiden/lib/fit/step"
	"gaiden/lib/models"
)

// TestSafetensors holds that weights come back from a file, and that PyTorch
// finds its own names and layouts there.
func TestSafetensors(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	for i, tt := range tiny() {
		t.Run(tt.net.Name, func(t *testing.T) {
			n := attach(t, s, fmt.Sprint("net", i), tt.net, Config{Seed: 1, FirstLook: true})
			data := load(t, n, fmt.Sprint("data", i), tt.data)
			if _, err := n.WithContext(ctx).Fit(data, Train{Batch: 8}); err != nil {
				t.Fatal(err)
			}
			want, err := n.Weights()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "net.safetensors")
			if err := n.SaveWeights(path); err != nil {
				t.Fatal(err)
			}
			m := attach(t, s, fmt.Sprint("copy", i), tt.net, Config{Seed: 2, FirstLook: true})
			if _, err := m.LoadWeights(path); err != nil {
				t.Fatal(err)
			}
			got, err := m.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if got[k].Name != want[k].Name || !slices.Equal(got[k].Data, want[k].Data) {
					t.Errorf("%s: not what was saved", want[k].Name)
				}
			}
		})
	}
}

// TestPyTorchNames holds the layouts of each kind of layer.
func TestPyTorchNames(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.Net{Name: "net", Input: []int{4, 4, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "c", Channels: 3, Kernel: 3}, models.BatchNorm{Name: "bn"},
		models.Flatten{}, models.Dense{Name: "fc", Units: 5}}}, Config{})
	r, err := n.rules()
	if err != nil {
		t.Fatal(err)
	}
	count := func(name string, dims ...int) Tensor {
		v := Tensor{Name: name, Dims: dims}
		size := 1
		for _, d := range dims {
			size *= d
		}
		for i := range size {
			v.Data = append(v.Data, float32(i))
		}
		return v
	}
	conv := r.of("c/weights").out(count("c/weights", 3, 3, 2, 3))
	if conv.Name != "c.weight" || !slices.Equal(conv.Dims, []int{3, 2, 3, 3}) {
		t.Errorf("convolution: got %s %v", conv.Name, conv.Dims)
	}
	if got, want := conv.Data[((1*2+1)*3+2)*3+0], float32(((2*3+0)*2+1)*3+1); got != want {
		t.Errorf("convolution: out 1, in 1, row 2, column 0: got %v, want %v", got, want)
	}
	dense := r.of("fc/weights").out(count("fc/weights", 2*2*3, 5))
	if dense.Name != "fc.weight" || !slices.Equal(dense.Dims, []int{5, 12}) {
		t.Errorf("dense: got %s %v", dense.Name, dense.Dims)
	}
	// channel 2, row 0, column 1 → unit 4
	if got, want := dense.Data[4*12+(2*2+0)*2+1], float32(((0*2+1)*3+2)*5+4); got != want {
		t.Errorf("dense: got %v, want %v", got, want)
	}
	if got := r.of("bn/variance").name; got != "bn.running_var" {
		t.Errorf("batch norm: got %s", got)
	}
	if r, err = attach(t, s, "flat", models.Net{Name: "flat", Input: []int{2, 2, 3}, Layers: []models.Layer{
		models.Flatten{}, models.BatchNorm{Name: "bn"}, models.Dense{Name: "fc", Units: 5}}}, Config{}).rules(); err != nil {
		t.Fatal(err)
	}
	for _, v := range []Tensor{count("bn/mean", 12), count("fc/weights", 12, 5)} { // channel 2, row 0, column 1
		width := len(v.Data) / 12
		out := r.of(v.Name).out(v)
		at := 2*4 + 1 // of 12 inputs
		if got, want := out.Data[at], float32((1*3+2)*width); got != want {
			t.Errorf("%s after Flatten: got %v, want %v", v.Name, got, want)
		}
		if back := r.of(v.Name).in(out); !slices.Equal(back.Data, v.Data) {
			t.Errorf("%s after Flatten: came back as %v", v.Name, back.Data)
		}
	}
}

// TestPyTorchParts holds the names and layouts of a depthwise convolution, which is a grouped one
// in PyTorch, and of layers in a net of parts.
func TestPyTorchParts(t *testing.T) {
	t.Parallel()
	part := func(name string) models.Net {
		return models.Net{Name: name, Input: []int{4, 4, 3}, Layers: []models.Layer{
			models.DepthwiseConv2D{Name: "dw", Kernel: 2}, models.Flatten{}, models.Dense{Name: "fc", Units: 2}}}
	}
	n := attach(t, open(t), "parts", models.Parts("parts", []int{1}, part("a"), part("b")), Config{Step: func(*step.Step) {}})
	r, err := n.rules()
	if err != nil {
		t.Fatal(err)
	}
	w := Tensor{Name: "b/dw/weights", Dims: []int{2, 2, 3}, Data: []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
	out := r.of(w.Name).out(w)
	if want := []float32{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}; out.Name != "b.dw.weight" || !slices.Equal(out.Dims, []int{3, 1, 2, 2}) || !slices.Equal(out.Data, want) {
		t.Errorf("depthwise: got %s %v %v, want b.dw.weight [3 1 2 2] %v", out.Name, out.Dims, out.Data, want)
	}
	if back := r.of(w.Name).in(out); !slices.Equal(back.Data, w.Data) {
		t.Errorf("depthwise came back as %v", back.Data)
	}
	if got := r.of("a/fc/weights"); got.name != "a.fc.weight" || !slices.Equal(got.features[0].index()[:4], []int{0, 3, 6, 9}) {
		t.Errorf("dense: got %+v", got)
	}
	before, file := weightsOf(t, n), filepath.Join(t.TempDir(), "parts.safetensors")
	if err := n.SaveWeights(file); err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(file); err != nil {
		t.Fatal(err)
	}
	for name, want := range before {
		if got := weightsOf(t, n)[name]; !slices.Equal(got, want) {
			t.Errorf("%s: came back as %v, want %v", name, got, want)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.Peaks(), Config{})
	other := attach(t, s, "other", models.MLP(3), Config{})
	path := filepath.Join(t.TempDir(), "w")
	if err := other.SaveWeights(path); err != nil {
		t.Fatal(err)
	}
	_, err := n.LoadWeights(path)
	var wrong *result.ArchitectureError
	if !errors.As(err, &wrong) || !wrong.Weights {
		t.Errorf("weights of another net: got error %v, want an ArchitectureError", err)
	}
	if _, err := n.LoadWeights(path + "x"); err == nil {
		t.Error("no file: got no error")
	}
	pipe := filepath.Join(t.TempDir(), "pipe") // nobody writes to it
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(pipe); err == nil {
		t.Error("pipe: got no error")
	}
}

// TestSaveTargets: Save writes as package files does, whose tests have the rest.
func TestSaveTargets(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "net", models.Peaks(), Config{})
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o027))
	if err := errors.Join(os.WriteFile(dir+"/kept", nil, 0o600), os.Chmod(dir+"/kept", 0o664), os.Symlink("kept", dir+"/link"), syscall.Mkfifo(dir+"/pipe", 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		at, file string
		mode     os.FileMode
		err      string
	}{
		{"new", "new", 0o640, ""},
		{"kept", "kept", 0o664, ""},
		{"link", "kept", 0o664, ""},
		{"pipe", "", 0, "fit: net: save: files: write " + dir + "/pipe: got a named pipe, want a regular file or a new name"},
		{"", "", 0, "got a directory"},
	}
	for _, tt := range tests {
		err := n.SaveWeights(dir + "/" + tt.at)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: got error %v, want %q", tt.at, err, tt.err)
		}
		if tt.file == "" {
			continue
		}
		info, err := os.Stat(dir + "/" + tt.file)
		if err != nil || info.Mode() != tt.mode {
			t.Errorf("%s: got %v, %v; want mode %v", tt.at, info.Mode(), err, tt.mode)
		}
		if _, err := n.LoadWeights(dir + "/" + tt.file); err != nil {
			t.Errorf("%s: what was saved: %v", tt.at, err)
		}
	}
	if to, err := os.Readlink(dir + "/link"); to != "kept" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}
