package hub

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/weights"
)

// TestLoRA holds an adapter to peft's: its logits, a step of gradient descent, what is saved, and
// the weights that it is merged into.
func TestLoRA(t *testing.T) {
	s, want := open(t), readValues(t)["lora"]
	m, err := Open("testdata/llama")
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.Adapter("testdata/lora")
	if err != nil {
		t.Fatal(err)
	}
	net := m.Net(len(want.IDs[0]))
	net.LoRA = a.LoRA
	groups := optim.Groups{Optimizer: optim.SGD{LearningRate: 0.1}, Groups: []optim.Group{{Names: []string{"*/lora_*"}}, {Names: []string{"*"}, Frozen: true}}}
	n, err := fit.Attach(s, "lora", net, fit.Config{Optimizer: groups, FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(m.Dir, m.Weights); err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(a.Path, a.Weights); err != nil {
		t.Fatal(err)
	}
	logits := func(n *fit.Net) []float32 {
		t.Helper()
		p, err := n.Predict(want.IDs)
		if err != nil {
			t.Fatal(err)
		}
		return p.Output
	}
	near(t, "logits", logits(n), want.Logits, 1e-4)
	merged := m.Weights
	merged.Merge = true
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := n.SaveWeights(path, merged); err != nil {
		t.Fatal(err)
	}
	plain, err := fit.Attach(s, "plain", m.Net(len(want.IDs[0])), fit.Config{FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.LoadWeights(path, m.Weights); err != nil {
		t.Fatal(err)
	}
	near(t, "merged logits", logits(plain), want.Logits, 1e-4)

	train, err := n.Upload("x", fit.Data{X: want.IDs, Y: slices.Concat(want.Labels...)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Fit(train, fit.Train{Steps: 1, Batch: len(want.IDs), InOrder: true}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "adapter")
	if err := m.SaveAdapter(dir, n); err != nil {
		t.Fatal(err)
	}
	c, err := safetensors.OpenCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found := 0
	for i, array := range c.Tensors {
		if after, is := want.After[array.Name]; is {
			found++
			got, err := c.Floats(i)
			if err != nil {
				t.Fatal(err)
			}
			near(t, array.Name, got, after, 1e-5)
		}
	}
	if found != len(want.After) || len(c.Tensors) != 2*found {
		t.Errorf("wrote %d arrays, of which %d were compared: want %d of %d", len(c.Tensors), found, len(want.After), 2*len(want.After))
	}
	again, err := m.Adapter(dir)
	if err != nil || again.LoRA.Rank != a.LoRA.Rank || again.LoRA.Scale() != a.LoRA.Scale() || !slices.Equal(again.LoRA.Names, a.LoRA.Names) {
		t.Errorf("what was saved is %+v, %v, want %+v", again, err, a)
	}
}

// adaptedNet is a net with LoRA, and nothing else that SaveAdapter asks for.
type adaptedNet struct{ models.Net }

func (n adaptedNet) Model() models.Net                        { return n.Net }
func (n adaptedNet) SaveWeights(string, ...weights.Map) error { return nil }

// TestSaveAdapterJoined: LoRA on layers that peft has as one array cannot be written, and nothing
// is left of an adapter.
func TestSaveAdapterJoined(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"*/query", "*/value"}, "SaveWeights with Merge"},
		{[]string{"*/query", "*/key", "*/value"}, "SaveWeights with Merge"},
		{[]string{"*/up"}, ""},
	} {
		m, err := Open("testdata/gpt2")
		if err != nil {
			t.Fatal(err)
		}
		net := m.Net(8)
		net.LoRA = models.LoRA{Rank: 2, Names: tt.names}
		dir := filepath.Join(t.TempDir(), "adapter")
		err = m.SaveAdapter(dir, adaptedNet{net})
		if _, left := os.Stat(dir); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !os.IsNotExist(left)) {
			t.Errorf("%q: error %v, folder %v, want %q", tt.names, err, left, tt.want)
		}
	}
}

// TestInt8Tied holds the same of tables of embeddings that are the head's weights, too: predicted,
// generated, evaluated and saved.
func TestInt8Tied(t *testing.T) {
	s, name := open(t), "gemma2"
	want := readValues(t)[name]
	m, err := Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	length := len(want.IDs[0])
	net := m.Net(length)
	net.Int8 = []string{"tokens"}
	n, err := fit.Attach(s, name, net, fit.Config{FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(m.Dir, m.Weights); err != nil {
		t.Fatal(err)
	}
	p, err := n.Predict(want.IDs)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "logits", p.Output, want.Logits, 0.03)
	table, err := s.Array(name + "/tokens/weights")
	if err != nil {
		t.Fatal(err)
	}
	if shape, _ := table.Shape(); shape.DType != dtypes.Int8 || slices.Equal(p.Output, want.Logits) {
		t.Errorf("%s: the table is %s, want int8", name, shape)
	}
	// The rounded weights, saved, are those of a net in float32.
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := n.SaveWeights(path, m.Weights); err != nil {
		t.Fatal(err)
	}
	plain, err := fit.Attach(s, name+"-plain", m.Net(length), fit.Config{FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.LoadWeights(path, m.Weights); err != nil {
		t.Fatal(err)
	}
	q, err := plain.Predict(want.IDs)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "logits of the rounded weights in float32", q.Output, p.Output, 1e-4)
	var results [2]float64
	var texts [2][]int32
	for i, n := range []*fit.Net{n, plain} {
		g, err := n.Generate(want.IDs[:1], fit.Sampling{Length: 8})
		if err != nil {
			t.Fatal(err)
		}
		data, err := n.Upload("x", fit.Data{X: want.IDs, Y: slices.Concat(want.IDs...)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := n.Evaluate(data)
		if err != nil {
			t.Fatal(err)
		}
		texts[i], results[i] = g.Sequences[0].Tokens, r.Loss
	}
	if math.Abs(results[0]-results[1]) > 1e-4 || !slices.Equal(texts[0], texts[1]) {
		t.Errorf("%s: losses %v, texts %v: want the same twice", name, results, texts)
	}
}

// TestInt8Narrow holds that nets whose embeddings are int8 compute in bfloat16 where they are to.
func TestInt8Narrow(t *testing.T) {
	s, all := open(t), readValues(t)
	for _, name := range []string{"gpt2", "llama"} {
		for i, patterns := range [][]string{{"*"}, {"tokens"}} {
			want := all[name]
			m, err := Open(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			net := m.Net(len(want.IDs[0]))
			net.Int8 = patterns
			n, err := fit.Attach(s, fmt.Sprint(name, i), net, fit.Config{FirstLook: true, BF16: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.LoadWeights(m.Dir, m.Weights); err != nil {
				t.Fatal(err)
			}
			p, err := n.Predict(want.IDs)
			if err != nil {
				t.Fatalf("%s, %q: %v", name, patterns, err)
			}
			near(t, name+": logits", p.Output, want.Logits, 0.1)
		}
	}
}

// TestInt8 holds logits of int8 weights to those of the same weights in float32, within what
// rounding does, and the weights to what they were.
func TestInt8(t *testing.T) {
	s, want := open(t), readValues(t)["llama"]
	m, err := Open("testdata/llama")
	if err != nil {
		t.Fatal(err)
	}
	net := m.Net(len(want.IDs[0]))
	net.Int8 = []string{"*"}
	n, err := fit.Attach(s, "int8", net, fit.Config{FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(m.Dir, m.Weights); err != nil {
		t.Fatal(err)
	}
	p, err := n.Predict(want.IDs)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "logits", p.Output, want.Logits, 0.03)
	if slices.Equal(p.Output, want.Logits) {
		t.Error("logits are those of float32")
	}
	small, err := s.Array("int8/block/0/feedforward/down/weights")
	if err != nil {
		t.Fatal(err)
	}
	if shape, err := small.Shape(); err != nil || shape.DType != dtypes.Int8 {
		t.Errorf("the weights are %s, %v, want int8", shape, err)
	}
	rounded, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	_, plain := load(t, s, "llama", len(want.IDs[0]), fit.Config{FirstLook: true})
	if err := plain.SetWeights(rounded); err != nil {
		t.Fatal(err)
	}
	q, err := plain.Predict(want.IDs)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "logits of the rounded weights in float32", q.Output, p.Output, 1e-4)
	// LoRA is trained on top of them.
	net.LoRA = models.LoRA{Rank: 2}
	groups := optim.Groups{Optimizer: optim.Adam{LearningRate: 0.03}, Groups: []optim.Group{{Names: []string{"*/lora_*"}}, {Names: []string{"*"}, Frozen: true}}}
	if n, err = fit.Attach(s, "both", net, fit.Config{Optimizer: groups, FirstLook: true}); err != nil {
		t.Fatal(err)
	}
	if err := n.SetWeights(rounded); err != nil {
		t.Fatal(err)
	}
	train, err := n.Upload("x", fit.Data{X: want.IDs, Y: slices.Concat(want.IDs...)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Fit(train, fit.Train{Steps: 8, Batch: 2})
	if err != nil {
		t.Fatal(err)
	}
	if first, last := h.Losses[0], h.Losses[7]; !(last < 0.95*first) {
		t.Errorf("loss went from %v to %v, want less", first, last)
	}
	after, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	was := map[string][]float32{}
	for _, w := range rounded {
		was[w.Name] = w.Data
	}
	for _, w := range after {
		if lora := strings.Contains(w.Name, "/lora_"); !lora && !slices.Equal(w.Data, was[w.Name]) {
			t.Errorf("%s has changed", w.Name)
		}
	}
}
