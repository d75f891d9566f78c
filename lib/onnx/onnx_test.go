package onnx

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}

// TestNets holds files to onnxruntime's results, and a step of gradient descent to PyTorch's.
func TestNets(t *testing.T) {
	var want struct {
		Conv struct {
			X, Y  []float32
			After map[string][]float32
		}
		Words struct {
			IDs     [][]int32
			Mask, Y []float32
		}
	}
	b, err := os.ReadFile("testdata/values.json")
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Config{Socket: devicetest.Start(t), Space: "onnx"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	open := func(name string, dims map[string][]int) *fit.Net {
		t.Helper()
		m, err := Open("testdata/" + name + ".onnx")
		if err != nil {
			t.Fatal(err)
		}
		n, err := fit.Attach(s, name, m.Net(dims), fit.Config{Optimizer: optim.SGD{LearningRate: 0.1}, FirstLook: true})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	near := func(what string, got, want []float32) {
		t.Helper()
		for i := range want {
			if len(got) != len(want) || !(math.Abs(float64(got[i]-want[i])) < 1e-5) {
				t.Fatalf("%s: got %v, want %v", what, got, want)
			}
		}
	}
	words := open("words", map[string][]int{"ids": {3}, "mask": {3}})
	p, err := words.Predict(fit.Inputs{"ids": want.Words.IDs, "mask": want.Words.Mask})
	if err != nil {
		t.Fatal(err)
	}
	near("words", p.Output, want.Words.Y)
	conv := open("conv", nil)
	if p, err = conv.Predict(want.Conv.X); err != nil {
		t.Fatal(err)
	}
	near("conv", p.Output, want.Conv.Y)
	train, err := conv.Upload("x", fit.Data{X: want.Conv.X, Y: []int32{2, 0}})
	if err == nil {
		_, err = conv.Fit(train, fit.Train{Steps: 1, Batch: 2, InOrder: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := conv.Weights()
	if err != nil || len(after) != len(want.Conv.After) {
		t.Fatalf("got %d variables, %v, want %d", len(after), err, len(want.Conv.After))
	}
	for _, w := range after {
		near(w.Name, w.Data, want.Conv.After[strings.TrimPrefix(w.Name, "ONNX/")])
	}
}

func TestModelString(t *testing.T) {
	m, err := Open("testdata/conv.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.String(); !strings.HasPrefix(got, "testdata/conv.onnx: takes ") || !strings.Contains(got, ", returns ") || !strings.HasSuffix(got, " arrays") {
		t.Errorf("got %s", got)
	}
}

func TestRefuses(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none.onnx")); err == nil || !strings.Contains(err.Error(), "none.onnx") {
		t.Errorf("got %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.onnx")
	if err := os.WriteFile(bad, []byte("no protobuf"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bad); err == nil || !strings.Contains(err.Error(), "bad.onnx") {
		t.Errorf("got %v", err)
	}
	for name, text := range map[string]string{"empty": "", "text": "\x08\x07garbage\xff\xff"} {
		os.WriteFile(bad, []byte(text), 0o600)
		if _, err := Open(bad); err == nil || !strings.Contains(err.Error(), "damaged, or no ONNX file") || strings.Contains(err.Error(), "nil pointer") {
			t.Errorf("%s: got %v, want that it is damaged", name, err)
		}
	}
}

// TestRoundTrip holds that a file of net.Export is read back as a net with the same results.
func TestRoundTrip(t *testing.T) {
	s, err := session.Config{Socket: devicetest.Start(t), Space: "onnx"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for name, layers := range map[string][]models.Layer{
		"conv": {models.Conv2D{Channels: 3, Kernel: 3, Act: models.ReLU}, models.BatchNorm{}, models.MaxPool2D{Window: 2}, models.Flatten{}, models.Dense{Units: 3}},
		"mlp":  {models.Flatten{}, models.Dense{Units: 5, Act: models.GELU}, models.Dense{Units: 3}},
	} {
		n, err := fit.Attach(s, name, models.Net{Name: name, Input: []int{6, 6, 2}, Layers: layers}, fit.Config{FirstLook: true})
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 2*6*6*2)
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		want, err := n.Predict(x)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name+".onnx")
		if err := n.Export(path); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		back, err := fit.Attach(s, name+"_back", m.Net(nil), fit.Config{FirstLook: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := back.Predict(x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Output {
			if !(math.Abs(float64(got.Output[i]-want.Output[i])) < 1e-5) {
				t.Fatalf("%s: got %v, want %v", name, got.Output, want.Output)
			}
		}
	}
}
