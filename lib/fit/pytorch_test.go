package fit

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/models"
)

// inFile reads a safetensors file.
func inFile(t *testing.T, path string) (all []Tensor) {
	t.Helper()
	c, err := safetensors.OpenCheckpoint(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, x := range c.Tensors {
		data, err := c.Floats(i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Tensor{Name: x.Name, Dims: x.Shape, Data: data})
	}
	return all
}

// toFile writes one.
func toFile(t *testing.T, path string, all []Tensor) {
	t.Helper()
	if err := writeTensors(path, all); err != nil {
		t.Fatal(err)
	}
}

// TestPyTorchBiases holds that nn.LSTM finds both of its biases in a file, and that
// ours are their sum, or the one that is there.
func TestPyTorchBiases(t *testing.T) {
	s := open(t)
	net := models.Net{Name: "lstm", Input: []int{7, 2}, Layers: []models.Layer{models.LSTM{Name: "l", Units: 3}}}
	n := attach(t, s, "net", net, Config{FirstLook: true})
	if err := n.SetWeights(formulaWeights(n)); err != nil {
		t.Fatal(err)
	}
	own, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w")
	if err := n.SaveWeights(path); err != nil {
		t.Fatal(err)
	}
	saved := inFile(t, path)
	at := func(name string) int {
		return slices.IndexFunc(saved, func(t Tensor) bool { return t.Name == name })
	}
	ours, theirs := slices.IndexFunc(own, func(t Tensor) bool { return t.Name == "l/biases" }), at("l.bias_hh_l0")
	if len(saved) != 4 || theirs < 0 || !slices.Equal(saved[theirs].Dims, []int{12}) || !slices.Equal(saved[theirs].Data, make([]float32, 12)) {
		t.Fatalf("saved: got %v, want 4 tensors and zeros as l.bias_hh_l0", saved)
	}
	second := formula("second", 12)
	sum := slices.Clone(own[ours].Data)
	for i := range sum {
		sum[i] += second[i]
	}
	other := slices.Clone(saved)
	other[theirs].Data = second
	short := slices.Clone(saved)
	short[theirs] = Tensor{Name: "l.bias_hh_l0", Dims: []int{3}, Data: second[:3]}
	for _, tt := range []struct {
		name string
		file []Tensor
		want []float32 // nil: refused
	}{
		{"as saved", saved, own[ours].Data},
		{"another second", other, sum},
		{"no second", slices.Delete(slices.Clone(saved), theirs, theirs+1), own[ours].Data},
		{"a short second", short, nil},
		{"no first", slices.Delete(slices.Clone(saved), at("l.bias_ih_l0"), at("l.bias_ih_l0")+1), nil},
	} {
		toFile(t, path, tt.file)
		if err := n.SetWeights([]Tensor{{Name: "l/biases", Dims: []int{12}, Data: make([]float32, 12)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.LoadWeights(path); (err == nil) != (tt.want != nil) {
			t.Errorf("%s: got error %v", tt.name, err)
		}
		got, err := n.Weights()
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range got {
			if i != ours && !slices.Equal(w.Data, own[i].Data) || i == ours && tt.want != nil && !slices.Equal(w.Data, tt.want) {
				t.Errorf("%s: %s: got %v", tt.name, w.Name, w.Data)
			}
		}
	}
}

// TestPyTorch holds that PyTorch's modules load files of ours strictly, and return
// what our nets do. Set GAIDEN_PEERS to an interpreter that has PyTorch.
func TestPyTorch(t *testing.T) {
	python := os.Getenv("GAIDEN_PEERS")
	if python == "" {
		t.Skip("needs PyTorch: python3 -m venv peers && peers/bin/pip install torch numpy, and set GAIDEN_PEERS to the full path of peers/bin/python")
	}
	s := open(t)
	dir := t.TempDir()
	flat := models.Net{Name: "Flat", Input: []int{4, 4, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "conv", Channels: 3, Kernel: 3}, models.Flatten{}, models.BatchNorm{Name: "bn"}, models.Dense{Name: "fc", Units: 5}}}
	sequences := models.Net{Name: "Sequences", Input: []int{7, 4}, Layers: []models.Layer{
		models.Conv1D{Name: "conv", Channels: 5, Kernel: 2}, models.GRU{Name: "gru", Units: 3}, models.RNN{Name: "rnn", Units: 6},
		models.Repeat{Name: "blocks", Times: 2, Layer: models.TransformerBlock{Heads: 2, Causal: true}}, models.LayerNorm{Name: "norm"}, models.Dense{Name: "fc", Units: 2}}}
	for i, net := range []models.Net{models.SineLSTM(5, 20), models.ResNet("ResNet14", 1, 1, 1, 1), models.LeNet5(), flat, sequences} {
		n := attach(t, s, fmt.Sprint("net", i), net, Config{FirstLook: true})
		weights := formulaWeights(n)
		for _, v := range n.floats() { // running means that are not those of a new net
			mean, variance := strings.HasSuffix(v.name, "/mean"), strings.HasSuffix(v.name, "/variance")
			if !mean && !variance {
				continue
			}
			w := Tensor{Name: v.name, Dims: v.shape.Dimensions, Data: formula(v.name, v.shape.Size())}
			for k := range w.Data {
				if variance {
					w.Data[k]++
				}
			}
			weights = append(weights, w)
		}
		if err := n.SetWeights(weights); err != nil {
			t.Fatal(err)
		}
		if err := n.SaveWeights(filepath.Join(dir, net.Name+".safetensors")); err != nil {
			t.Fatal(err)
		}
		const examples = 3
		dims := append([]int{examples}, net.Input...)
		size := 1
		for _, d := range dims {
			size *= d
		}
		x := formula(net.Name, size)
		p, err := n.Predict(x)
		if err != nil {
			t.Fatal(err)
		}
		largest := 0.0
		for _, y := range p.Output {
			largest = max(largest, math.Abs(float64(y)))
		}
		if largest == 0 {
			t.Errorf("%s: every output is 0", net.Name)
		}
		toFile(t, filepath.Join(dir, net.Name+".run"), []Tensor{{Name: "x", Dims: dims, Data: x}, {Name: "y", Dims: []int{examples, p.Width}, Data: p.Output}})
	}
	out, err := exec.Command(python, "testdata/load_torch.py", dir).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
