package fit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/data"
	"gaiden/lib/models"
)

// TestActivations holds what layers return against what the net returns, and attention's
// weights against what softmax and a causal mask say of them.
func TestActivations(t *testing.T) {
	t.Parallel()
	s := open(t)
	book := data.TextOf(strings.Repeat("abcd efgh ", 20))
	n := attach(t, s, "gpt", models.Net{Name: "gpt", Input: []int{6}, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: book.Vocab(), Units: 8},
		models.Repeat{Name: "block", Times: 2, Layer: models.TransformerBlock{Heads: 2, Causal: true}},
		models.Dense{Name: "head", Units: book.Vocab()},
	}}, Config{FirstLook: true, Seed: 3})
	examples := book.Windows(6)
	set := load(t, n, "text", examples)
	all, err := n.Activations(set, "*/weights", "block/1", "head")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	if got, want := strings.Join(names, " "), "block/0/attention/weights block/1/attention/weights block/1 head"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if got, want := all[0].Dims, []int{set.N, 2, 6, 6}; !slices.Equal(got, want) {
		t.Fatalf("weights: got %v, want %v", got, want)
	}
	for i := 0; i < len(all[0].Data); i += 6 { // a query's weights of all keys
		sum := float32(0)
		for k, w := range all[0].Data[i : i+6] {
			if sum += w; k > i/6%6 && w != 0 {
				t.Fatalf("query %d: got the weight %g of key %d, want 0 of what comes later", i/6%6, w, k)
			}
		}
		if math.Abs(float64(sum)-1) > 1e-5 {
			t.Fatalf("weights of query %d: got a sum of %g, want 1", i/6, sum)
		}
	}
	p, err := n.Predict(set)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, map[string][]float32{"head": all[3].Data}, map[string][]float32{"head": p.Output}, 1e-5)
	one, err := n.Activations(examples.First(1).X, "head")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, map[string][]float32{"head": one[0].Data}, map[string][]float32{"head": p.Row(0)}, 1e-5)
	for _, tt := range []struct {
		patterns []string
		want     string
	}{
		{nil, "got no name of a layer: want some of tokens, "},
		{[]string{"head", "tail"}, `no layer is called "tail": want some of tokens, block/0/norm1, block/0/attention/weights, block/0/attention, `},
	} {
		if _, err := n.Activations(set, tt.patterns...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %s", tt.patterns, err, tt.want)
		}
	}
}
