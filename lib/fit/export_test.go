package fit

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/data"
	"gaiden/lib/models"
	"gaiden/lib/portable"
	"gaiden/lib/session"
)

// TestExportModule builds the exported module of a net of tables and runs its tests, offline,
// outside of Gaiden, and once more after the net has been trained on arrays.
func TestExportModule(t *testing.T) {
	t.Parallel()
	n := tableNet(t, open(t), "fmt") // a name of Go's own
	dir := filepath.Join(t.TempDir(), "words")
	export := func(d Data) {
		t.Helper()
		_, err := n.Fit(load(t, n, "table", d), Train{Batch: 8, Quiet: true})
		if err == nil {
			err = n.Export(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(stdin, want string, args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOMLX_BACKEND=")
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) || strings.Contains(string(out), "FAIL") {
			t.Fatalf("%v\n%s: want %q", err, out, want)
		}
	}
	d := must(encoderOf("survived", false).Encode(passengers()))
	export(d)
	run("", "ok", "test", "-vet=all", "./...")
	run(`{"rows": [{"port": "Oslo", "class": 2, "age": 30, "name": "Jo"}]}`, `{"class":"`, "run", "./cmd/predict")
	run(`{"rows": [{"port": "Osl", "class": 2, "age": 30}]}`, `row 1: port is "Osl": want one of "Bergen", "Oslo"`, "run", "./cmd/predict")
	d.Encoder = &data.Encoder{Classes: []string{"no", "yes"}} // as of images: it names classes
	export(d)
	run("", "ok", "test", "-vet=all", "./...")
	run(`{"numbers": [[0]], "port": [[1]], "class": [[2]]}`, `"probabilities":{"no":`, "run", "./cmd/predict")
	d.Encoder = nil
	export(d)
	run("", "ok", "test", "-vet=all", "./...")
	for _, old := range []string{"rows*", "answers*", "testdata/rows*"} {
		if left, err := filepath.Glob(filepath.Join(dir, old)); err != nil || left != nil {
			t.Errorf("got %v, %v, want no files of earlier exports", left, err)
		}
	}
}

// exportedNets are nets whose variables, inputs or layers are special for training; package export
// tests more.
var exportedNets = map[string]models.Net{
	"dense": {Input: []int{6}, LoRA: models.LoRA{Rank: 2, Names: []string{"a"}}, Layers: []models.Layer{models.Dense{Name: "a", Units: 4}, models.SpectralNorm{Name: "s", Layer: models.Dense{Units: 3}}}},
	"int8":  {Input: []int{6}, Int8: []string{"a"}, Layers: []models.Layer{models.Dense{Name: "a", Units: 7}, models.Dense{Name: "b", Units: 2}}},
	"conv": {Input: []int{9, 8, 2}, Layers: []models.Layer{models.Normalize{Mean: []float64{0.1, 0.2}, Deviation: []float64{0.5, 2}}, models.RandomFlip{}, models.RandomCrop{Pad: 1}, models.Cutout{Size: 2}, models.MixUp{},
		models.Conv2D{Channels: 4, Kernel: 3, Act: models.ReLU}, models.BatchNorm{Act: models.ELU}, models.MaxPool2D{Window: 2}, models.Flatten{}, models.Dropout{Rate: 0.5}, models.Dense{Units: 3}}},
	"joint": {Inputs: []models.Input{{Name: "ids", Dims: []int{3}, Integers: true, Vocab: 5}, {Name: "z", Dims: []int{2}}}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		a := models.Call(scope, models.Embedding{Name: "words", Vocab: 5, Units: 4}, in["ids"])
		return Concatenate([]*Node{models.Call(scope, models.Dense{Name: "d", Units: 4}, ReduceSum(a, 1)), in["z"]}, 1)
	}},
}

func attachExported(t *testing.T, s *session.Session, name string, net models.Net, c Config) *Net {
	t.Helper()
	net.Name = name
	n, err := Attach(s, name, net, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestExportNets holds exported nets on the pure-Go backend to the session, and that each has an
// ONNX form.
func TestExportNets(t *testing.T) {
	t.Parallel()
	s := open(t)
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	for name, net := range exportedNets {
		t.Run(name, func(t *testing.T) {
			n := attachExported(t, s, name, net, Config{FirstLook: true})
			dir := filepath.Join(t.TempDir(), name)
			if err := errors.Join(n.Export(dir), n.Export(dir+".onnx")); err != nil {
				t.Fatal(err)
			}
			m, err := portable.Open(os.DirFS(dir), backend)
			if err != nil {
				t.Fatal(err)
			}
			var want []portable.Array
			for _, a := range append(append([]portable.Array{}, m.Program.Inputs...), m.Program.Output) {
				a.Dims = append([]int{3}, a.Dims...)
				want = append(want, a)
			}
			b, err := os.ReadFile(filepath.Join(dir, "testdata", "answers.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			flats, err := portable.ReadArrays(b, want)
			if err != nil {
				t.Fatal(err)
			}
			y := flats[len(flats)-1].([]float32)
			got, err := m.Predict(flats[:len(flats)-1]...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range y {
				if len(got) != len(y) || !(math.Abs(float64(got[i]-y[i])) < 1e-4) {
					t.Fatalf("got %v, want %v", got, y)
				}
			}
			if m.Program.Batch != 0 {
				t.Errorf("got a program for %d examples, want any number", m.Program.Batch)
			}
		})
	}
}

// TestExportRefuses holds what Export does not write, and that it leaves directories as they are.
func TestExportRefuses(t *testing.T) {
	t.Parallel()
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
