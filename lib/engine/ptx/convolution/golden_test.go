package convolution

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// longest is the length of a text that testdata has as it is.
const longest = 60_000

var (
	kerasConv  = kernels.Geometry{Batch: 128, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true}
	lenetConv  = kernels.Geometry{Batch: 100, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true}
	paddedConv = kernels.Geometry{Batch: 2, Height: 7, Width: 9, In: 10, Out: 12, Size: 3, Pad: 1}
	tinyConv   = kernels.Geometry{Batch: 2, Height: 3, Width: 3, In: 2, Out: 8, Size: 1}
)

// goldens are the kernels of the nets whose time counts, and small ones with each
// activation, with and without pooling, of float32 and of BFloat16.
var goldens = map[string]ptx.Kernel{
	"conv_keras_2":            Conv{Geometry: kerasConv, Act: kernels.ReLU}.Kernel(),
	"conv_keras_2_bf16":       Conv{Geometry: kerasConv, Act: kernels.ReLU, Brain: true}.Kernel(),
	"conv_lenet5_2":           Conv{Geometry: lenetConv, Act: kernels.Sigmoid}.Kernel(),
	"conv_lenet5_2_bf16":      Conv{Geometry: lenetConv, Act: kernels.Sigmoid, Brain: true}.Kernel(),
	"conv_padded_tanh":        Conv{Geometry: paddedConv, Act: kernels.Tanh}.Kernel(),
	"conv_padded_tanh_bf16":   Conv{Geometry: paddedConv, Act: kernels.Tanh, Brain: true}.Kernel(),
	"conv_tiny_relu":          Conv{Geometry: tinyConv, Act: kernels.ReLU}.Kernel(),
	"conv_tiny_identity_bf16": Conv{Geometry: tinyConv, Brain: true}.Kernel(),
	"back_keras_2":            Back{Geometry: kerasConv, Act: kernels.ReLU}.Kernel(),
	"back_keras_2_bf16":       Back{Geometry: kerasConv, Act: kernels.ReLU, Brain: true}.Kernel(),
	"back_lenet5_2":           Back{Geometry: lenetConv, Act: kernels.Sigmoid}.Kernel(),
	"back_lenet5_2_bf16":      Back{Geometry: lenetConv, Act: kernels.Sigmoid, Brain: true}.Kernel(),
	"back_padded_tanh":        Back{Geometry: paddedConv, Act: kernels.Tanh}.Kernel(),
	"back_padded_tanh_bf16":   Back{Geometry: paddedConv, Act: kernels.Tanh, Brain: true}.Kernel(),
	"back_tiny_relu":          Back{Geometry: tinyConv, Act: kernels.ReLU}.Kernel(),
	"back_tiny_identity_bf16": Back{Geometry: tinyConv, Brain: true}.Kernel(),
}

// TestGoldens holds the text of kernels, to the letter. Those of Keras's convolution,
// which are unrolled, are too long for testdata: of them the file sums has a SHA-256 and
// the length. Each change shows, but not where it is: the text is left beside it, as
// name.ptx.got-, to be compared with the one that the commit before leaves.
func TestGoldens(t *testing.T) {
	file := filepath.Join("testdata", "sums")
	old, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatalf("%v; run go test -update", err)
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(goldens)) {
		got, err := goldens[name].Text()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := filepath.Join("testdata", name+".ptx")
		if len(got) > longest {
			sum := fmt.Sprintf("%x %7d %s\n", sha256.Sum256([]byte(got)), len(got), name)
			sums.WriteString(sum)
			if !*update && !strings.Contains(string(old), sum) {
				leave(t, path, got)
				t.Errorf("%s: got a kernel whose sum and length, %s, are not in %s; its text is %s.got-; run go test -update", name, strings.TrimSpace(sum), file, path)
			}
			continue
		}
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; run go test -update", err)
		} else if got != string(want) {
			leave(t, path, got)
			t.Errorf("%s: got a kernel that differs from %s at %q; run go test -update and review the diff", name, path, difference(got, string(want)))
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(sums.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// leave writes what was got.
func leave(t *testing.T, path, got string) {
	if err := os.WriteFile(path+".got-", []byte(got), 0o644); err != nil {
		t.Error(err)
	}
}

// difference is the first line that differs.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return strings.TrimSpace(g[i])
		}
	}
	return "its end"
}
