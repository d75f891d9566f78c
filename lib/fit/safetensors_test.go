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

// TestPyTorchParts holds that the weights of a net of parts come back from a file.
func TestPyTorchParts(t *testing.T) {
	t.Parallel()
	part := func(name string) models.Net {
		return models.Net{Name: name, Input: []int{4, 4, 3}, Layers: []models.Layer{
			models.DepthwiseConv2D{Name: "dw", Kernel: 2}, models.Flatten{}, models.Dense{Name: "fc", Units: 2}}}
	}
	n := attach(t, open(t), "parts", models.Parts("parts", []int{1}, part("a"), part("b")), Config{Step: func(*step.Step) {}})
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
