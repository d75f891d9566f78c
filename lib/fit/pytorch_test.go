package fit

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fit/statedict"
	"gaiden/lib/models"
	"gaiden/lib/weights"
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
	if err := (statedict.Net{}).Save(path, all); err != nil { // without layers, names stay
		t.Fatal(err)
	}
}

// TestPyTorchBiases holds that nn.LSTM finds both of its biases in a file, and that
// ours are their sum, or the one that is there.
func TestPyTorchBiases(t *testing.T) {
	t.Parallel()
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

//go:embed testdata/pytorchnets.json
var pytorchNetsJSON []byte

// TestPyTorchNets holds that nets in whose layers images are flattened, vectors become images, or
// sequences are read in both directions return with PyTorch's weights what PyTorch's do, and that
// these are saved as they were.
func TestPyTorchNets(t *testing.T) {
	t.Parallel()
	s := open(t)
	conv := models.Conv2D{Name: "conv", Channels: 3, Kernel: 3}
	dense := func(name string, units int) models.Layer { return models.Dense{Name: name, Units: units} }
	relu := models.Activation{Act: models.ReLU}
	image := func(layers ...models.Layer) models.Net {
		return models.Net{Input: []int{4, 4, 2}, Layers: append([]models.Layer{conv, models.Flatten{}}, layers...)}
	}
	nets := map[string]models.Net{
		"sequential": {Input: []int{4, 4, 2}, Layers: []models.Layer{conv, models.Sequential{Name: "head", Layers: []models.Layer{models.Flatten{}, dense("fc", 5), relu}}, dense("last", 2)}},
		"residual":   image(models.Residual{Name: "res", Main: []models.Layer{dense("fc", 12)}, Act: models.ReLU}, dense("last", 2)),
		"both branches": {Input: []int{4, 4, 2}, Layers: []models.Layer{conv, models.Residual{Name: "res", Main: []models.Layer{models.Flatten{}, dense("main", 5)},
			Skip: []models.Layer{models.Flatten{}, dense("skip", 5)}}, dense("last", 2)}},
		"concat": {Input: []int{4, 4, 2}, Layers: []models.Layer{conv, models.Concat{Name: "all", Branches: [][]models.Layer{{models.Flatten{}, dense("fc", 5)}, {models.Flatten{}}}}, dense("last", 2)}},
		"channels": {Input: []int{4, 4, 2}, Layers: []models.Layer{models.Concat{Name: "all", Branches: [][]models.Layer{{models.Conv2D{Name: "a", Channels: 3, Kernel: 3}},
			{models.Conv2D{Name: "b", Channels: 3, Kernel: 3}}}}, models.Flatten{}, dense("last", 2)}},
		"norms":  image(models.Sequential{Name: "all", Layers: []models.Layer{models.BatchNorm{Name: "bn"}, models.LayerNorm{Name: "norm"}, models.PReLU{Name: "prelu"}}}, dense("last", 2)),
		"repeat": image(models.Repeat{Name: "blocks", Times: 2, Layer: models.Residual{Main: []models.Layer{dense("fc", 12)}}}, dense("last", 2)),
		"decoder": {Input: []int{3}, Layers: []models.Layer{dense("fc", 12), models.BatchNorm{Name: "bn", Act: models.ReLU}, models.Unflatten{Dims: []int{2, 2, 3}},
			models.ConvTranspose2D{Name: "up", Channels: 2, Kernel: 2, Stride: 2}}},
		"residual decoder": {Input: []int{3}, Layers: []models.Layer{dense("fc", 12), models.Residual{Name: "res", Main: []models.Layer{dense("a", 12)}}, models.Unflatten{Dims: []int{2, 2, 3}},
			models.ConvTranspose2D{Name: "up", Channels: 2, Kernel: 2, Stride: 2}}},
		"conv1d":      {Input: []int{7, 2}, Layers: []models.Layer{models.Conv1D{Name: "conv", Channels: 4, Kernel: 2, Act: models.ReLU}, models.MaxPool1D{Window: 2}, models.Flatten{}, dense("fc", 3)}},
		"gru":         {Input: []int{6, 2}, Layers: []models.Layer{models.GRU{Name: "gru", Units: 3}, models.Flatten{}, dense("fc", 3)}},
		"conv3d":      {Input: []int{3, 3, 3, 2}, Layers: []models.Layer{models.Conv3D{Name: "conv", Channels: 3, Kernel: 2}, models.Flatten{}, dense("fc", 3)}},
		"to conv1d":   {Input: []int{3}, Layers: []models.Layer{dense("fc", 12), models.Unflatten{Dims: []int{6, 2}}, models.Conv1D{Name: "conv", Channels: 3, Kernel: 2}, models.Flatten{}, dense("last", 2)}},
		"to gru":      {Input: []int{3}, Layers: []models.Layer{dense("fc", 12), models.Unflatten{Dims: []int{6, 2}}, models.GRU{Name: "gru", Units: 3}, models.Flatten{}, dense("last", 2)}},
		"feedforward": {Input: []int{4, 4, 2}, Layers: []models.Layer{conv, models.Flatten{}, models.FeedForward{Name: "ff", Hidden: 5}}},
		"pixels":      {Input: []int{4, 4, 2}, Layers: []models.Layer{conv, models.Unflatten{Dims: []int{4, 3}}, models.GRU{Name: "gru", Units: 2}, models.LastStep{}, dense("last", 2)}},
		"bidirectional": {Input: []int{5, 2}, Layers: []models.Layer{models.Sequential{Name: "body", Layers: []models.Layer{models.Bidirectional{Name: "lstm", Layer: models.LSTM{Units: 3}},
			models.Bidirectional{Name: "gru", Layer: models.GRU{Units: 2}}, models.Bidirectional{Name: "rnn", Layer: models.RNN{Units: 3}}}}, models.LastStep{}, dense("last", 2)}},
	}
	var want map[string]struct {
		Weights map[string][]int
		Y       []float64
	}
	if err := json.Unmarshal(pytorchNetsJSON, &want); err != nil {
		t.Fatal(err)
	}
	for name, w := range want {
		t.Run(name, func(t *testing.T) {
			net := nets[name]
			net.Name = name
			n := attach(t, s, strings.ReplaceAll(name, " ", "_"), net, Config{FirstLook: true})
			file := filepath.Join(t.TempDir(), "w")
			var theirs []Tensor
			for name, dims := range w.Weights {
				size := 1
				for _, d := range dims {
					size *= d
				}
				v := Tensor{Name: name, Dims: dims, Data: formula(name, size)}
				if strings.HasSuffix(name, "running_var") {
					for i := range v.Data {
						v.Data[i]++
					}
				}
				theirs = append(theirs, v)
			}
			toFile(t, file, theirs)
			if _, err := n.LoadWeights(file); err != nil {
				t.Fatal(err)
			}
			inputs := 1
			for _, d := range net.Input {
				inputs *= d
			}
			p, err := n.Predict(formula(name, 3*inputs))
			if err != nil {
				t.Fatal(err)
			}
			for i, y := range p.Output {
				if want := w.Y[i]; len(w.Y) != len(p.Output) || !(math.Abs(float64(y)-want) < 1e-5) {
					t.Fatalf("got %v, want %v", p.Output, w.Y)
				}
			}
			if err := n.SaveWeights(file); err != nil {
				t.Fatal(err)
			}
			saved := map[string]Tensor{}
			for _, v := range inFile(t, file) {
				saved[v.Name] = v
			}
			for _, v := range theirs {
				got, want := saved[v.Name], slices.Clone(v.Data)
				if before, end, is := strings.Cut(v.Name, "lstm.bias_"); is { // PyTorch adds both
					for i, other := range formula(before+"lstm.bias_hh"+end[2:], len(want)) {
						if want[i] += other; end[0] == 'h' {
							want[i] = 0
						}
					}
				}
				if !slices.Equal(got.Dims, v.Dims) || !slices.Equal(got.Data, want) {
					t.Errorf("%s: saved %v %v, want %v %v", v.Name, got.Dims, got.Data, v.Dims, want)
				}
			}
			if len(saved) != len(theirs) {
				t.Errorf("saved %d arrays, want %d", len(saved), len(theirs))
			}
		})
	}
}

// TestPyTorchMark: a file of Gaiden from before files said in which order vectors are is refused
// where that matters, one of another program is not.
func TestPyTorchMark(t *testing.T) {
	t.Parallel()
	net := models.Net{Name: "mark", Input: []int{2, 2, 3}, Layers: []models.Layer{models.Flatten{}, models.Dense{Name: "fc", Units: 1}}}
	n, file := attach(t, open(t), "mark", net, Config{FirstLook: true}), filepath.Join(t.TempDir(), "w")
	if err := n.SaveWeights(file); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := safetensors.Create(file, &safetensors.Header{Metadata: map[string]string{"format": "pt"}, Tensors: []safetensors.Tensor{
		{Name: "fc.weight", DType: "F32", Shape: []int{1, 12}}, {Name: "fc.bias", DType: "F32", Shape: []int{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(0, make([]byte, 4)), w.Write(1, make([]byte, 48)), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(file); err == nil || !strings.Contains(err.Error(), "fc.weight was saved by Gaiden before 0.1.0") {
		t.Errorf("a file without a mark: got error %v", err)
	}
	literal := weights.Map{Names: []weights.Name{{Variable: "fc/weights", Array: "fc.weight", Order: []int{1, 0}}}}
	if _, err := n.LoadWeights(file, literal); err != nil {
		t.Errorf("with an Order: %v", err)
	}
	header := `{"fc.weight":{"dtype":"F32","shape":[1,12],"data_offsets":[0,48]},"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[48,52]}}  `
	other := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, bytes := range [][]byte{now, append(other, make([]byte, 52)...)} {
		if err := os.WriteFile(file, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := n.LoadWeights(file); err != nil {
			t.Error(err)
		}
	}
}

// TestPyTorchStacked: layers of PyTorch's stacked LSTM and GRU are those of nets here by a map,
// with both biases, and are saved as they were.
func TestPyTorchStacked(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "stacked", models.Net{Name: "stacked", Input: []int{4, 2}, Layers: []models.Layer{
		models.Bidirectional{Name: "lstm", Layer: models.LSTM{Units: 2}}, models.GRU{Name: "gru", Units: 2}}}, Config{FirstLook: true})
	how := weights.Map{Names: []weights.Name{
		{Variable: "lstm/forward/weights", Array: "rnn.weight_ih_l1"}, {Variable: "lstm/forward/recurrent", Array: "rnn.weight_hh_l1"}, {Variable: "lstm/forward/biases", Array: "rnn.bias_ih_l1"},
		{Variable: "lstm/backward/weights", Array: "rnn.weight_ih_l1_reverse"}, {Variable: "lstm/backward/recurrent", Array: "rnn.weight_hh_l1_reverse"}, {Variable: "lstm/backward/biases", Array: "rnn.bias_ih_l1_reverse"},
		{Variable: "gru/weights", Array: "g.weight_ih_l1"}, {Variable: "gru/biases", Array: "g.bias_ih_l1"}, {Variable: "gru/recurrent/weights", Array: "g.weight_hh_l1"}, {Variable: "gru/recurrent/biases", Array: "g.bias_hh_l1"}}}
	file := filepath.Join(t.TempDir(), "w")
	if err := n.SaveWeights(file, how); err != nil {
		t.Fatal(err)
	}
	var names []string
	saved := inFile(t, file)
	for i, v := range saved {
		names = append(names, v.Name)
		saved[i].Data = formula(v.Name, len(v.Data))
	}
	slices.Sort(names)
	want := []string{"g.bias_hh_l1", "g.bias_ih_l1", "g.weight_hh_l1", "g.weight_ih_l1", "rnn.bias_hh_l1", "rnn.bias_hh_l1_reverse", "rnn.bias_ih_l1", "rnn.bias_ih_l1_reverse",
		"rnn.weight_hh_l1", "rnn.weight_hh_l1_reverse", "rnn.weight_ih_l1", "rnn.weight_ih_l1_reverse"}
	if !slices.Equal(names, want) {
		t.Errorf("saved %q, want %q", names, want)
	}
	toFile(t, file, saved)
	if _, err := n.LoadWeights(file, how); err != nil {
		t.Fatal(err)
	}
	got := weightsOf(t, n)
	for variable, arrays := range map[string][]string{"lstm/backward/biases": {"rnn.bias_ih_l1_reverse", "rnn.bias_hh_l1_reverse"}, "gru/biases": {"g.bias_ih_l1"}, "gru/recurrent/biases": {"g.bias_hh_l1"}} {
		sum := make([]float32, len(got[variable]))
		for _, name := range arrays {
			for i, x := range formula(name, len(sum)) {
				sum[i] += x
			}
		}
		if !slices.Equal(got[variable], sum) {
			t.Errorf("%s: got %v, want %v", variable, got[variable], sum)
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
