package fit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
)

// TestExportModules builds exported modules and runs their tests, offline, outside of Gaiden:
// their pure-Go results are those of the session.
func TestExportModules(t *testing.T) {
	s := open(t)
	for name, net := range map[string]models.Net{
		"conv": {Input: []int{9, 8, 2}, Layers: []models.Layer{
			models.Conv2D{Channels: 4, Kernel: 3, Act: models.ReLU}, models.BatchNorm{Act: models.GELU}, models.MaxPool2D{Window: 2},
			models.Flatten{}, models.Dropout{Rate: 0.5}, models.Dense{Units: 3}}},
		"words": {Input: []int{6}, Layers: []models.Layer{models.Embedding{Vocab: 11, Units: 8}, models.Positions{Length: 6},
			models.TransformerBlock{Heads: 2, Causal: true}, models.LSTM{Units: 4}, models.LastStep{}, models.Dense{Units: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			net.Name = name
			n, err := Attach(s, name, net, Config{FirstLook: true})
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), name)
			if err := n.Export(dir); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "test", "-vet=all", "./...")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOMLX_BACKEND=")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ok") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// TestExportRefuses holds what Export does not write, and that it leaves directories as they are.
func TestExportRefuses(t *testing.T) {
	s := open(t)
	attach := func(name string, net models.Net) *Net {
		t.Helper()
		net.Name = name
		n, err := Attach(s, name, net, Config{FirstLook: true})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	small := []models.Layer{models.Dense{Units: 2}}
	a, b := attach("a", models.Net{Input: []int{3}, Layers: small}), attach("b", models.Net{Input: []int{3}, Layers: small})
	fft := attach("fft", models.Net{Input: []int{4}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Dense{Name: "d", Units: 4}, in["x"])
		return Real(FFT(ConvertDType(x, dtypes.Complex64)))
	}})
	put := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := t.TempDir()
	if err := a.Export(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	old := put(filepath.Join(dir, "old", "go.mod"), "// Exported by Gaiden from net a.\nmodule a\n\nrequire github.com/gomlx/compute v0.0.1\n")
	for name, c := range map[string]struct {
		net        *Net
		path, want string
	}{
		"no path":              {a, "", "got no path"},
		"files of others":      {a, filepath.Dir(put(filepath.Join(dir, "mine", "notes.txt"), "x")), "holds notes.txt and no export"},
		"a file":               {a, put(filepath.Join(dir, "file"), "x"), "want a directory"},
		"another net":          {b, filepath.Join(dir, "a"), "the export of another net, a."},
		"another version":      {a, filepath.Dir(old), "wants another version than github.com/gomlx/compute v"},
		"no directory there":   {a, filepath.Join(dir, "none", "a"), "nothing can be written to " + filepath.Join(dir, "none") + ": no such file"},
		"an operation of XLA":  {fft, filepath.Join(dir, "fft"), "FFT has no portable form"},
		"ONNX to a directory":  {a, filepath.Join(dir, "none", "a.onnx"), "none"},
		"an operation in ONNX": {fft, filepath.Join(dir, "fft.onnx"), "FFT has no portable form"},
	} {
		if err := c.net.Export(c.path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "fit: "+c.net.Name()+": export: ") {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 4 { // a, old, mine, file
		t.Errorf("got %v, %v: want nothing new", left, err)
	}

	// A second export keeps what is not the module's own.
	mod := filepath.Join(dir, "a", "go.mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		t.Fatal(err)
	}
	put(mod, string(text)+"// mine\n")
	mine := put(filepath.Join(dir, "a", "mine.txt"), "x")
	weights := put(filepath.Join(dir, "a", "weights.safetensors"), "damaged")
	if err := a.Export(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{mod: "// mine", mine: "x", weights: "__metadata__"} {
		if got, err := os.ReadFile(path); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: got %.80q, %v, want %q in it", path, got, err, want)
		}
	}
	if hidden, err := filepath.Glob(filepath.Join(dir, "a", ".*")); err != nil || hidden != nil {
		t.Errorf("got %v, %v: want no files of the second export left", hidden, err)
	}
}
