package fit

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fused"
	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// mapped is a net, and how a file keeps its variables: two layers in one array, matrices as
// they are, a bias with an axis more.
var (
	mapped = models.Net{Name: "mapped", Input: []int{2}, Layers: []models.Layer{
		models.Repeat{Name: "block", Times: 2, Layer: models.Dense{Units: 2}},
		models.Sequential{Name: "pair", Layers: []models.Layer{models.Dense{Name: "q", Units: 2, NoBias: true}, models.Dense{Name: "k", Units: 2, NoBias: true}}},
		models.Dense{Name: "head", Units: 1},
	}}
	mappedNames = weights.Map{Names: []weights.Name{
		{Variable: "block/*/biases", Array: "h.*.b", Order: []int{-1, 0}},
		{Variable: "block/*/*", Array: "h.*.*", Order: []int{0, 1}},
		{Variable: "pair/q/weights", Array: "qk", Order: []int{0, 1}, Axis: 1, From: 0, To: 2},
		{Variable: "pair/k/weights", Array: "qk", Order: []int{0, 1}, Axis: 1, From: 2, To: 4},
	}}
	file = []stored{
		{"h.0.weights", "F16", []int{2, 2}, []float64{1, 2, 3, 4}}, {"h.0.b", "BF16", []int{1, 2}, []float64{5, 6}},
		{"h.1.weights", "F64", []int{2, 2}, []float64{7, 8, 9, 10}}, {"h.1.b", "I8", []int{1, 2}, []float64{-11, 12}},
		{"qk", "F32", []int{2, 4}, []float64{1, 2, 5, 6, 3, 4, 7, 8}},
		{"head.weight", "I16", []int{1, 2}, []float64{13, 14}}, {"head.bias", "U8", []int{1}, []float64{15}},
	}
	loaded = []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15}
)

// TestMap holds that variables are found by a map's mappedNames, parts and layouts, whatever type
// the file has, and written back with them.
func TestMap(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "net", mapped, Config{FirstLook: true})
	dir := t.TempDir()
	store(t, dir+"/in.safetensors", file...)
	table, err := n.LoadWeights(dir+"/in.safetensors", mappedNames)
	if err != nil {
		t.Fatal(err)
	}
	if got := flatWeights(t, n); !slices.Equal(got, loaded) {
		t.Errorf("got %v, want %v", got, loaded)
	}
	if len(table.Loaded) != 8 || len(table.Left)+len(table.Unused) > 0 || !strings.HasPrefix(table.String(), "loaded 8 of 8 variables, 23 numbers, F16 and BF16 and F64 and I8 and F32 and I16 and U8, from ") {
		t.Errorf("got %s", table)
	}
	if err := n.SaveWeights(dir+"/out.safetensors", mappedNames); err != nil {
		t.Fatal(err)
	}
	c, err := safetensors.OpenCheckpoint(dir + "/out.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, want := range file {
		i := slices.IndexFunc(c.Tensors, func(t safetensors.Tensor) bool { return t.Name == want.name })
		if i < 0 || !slices.Equal(c.Tensors[i].Shape, want.dims) {
			t.Errorf("%s was written as %v, want %v", want.name, c.Tensors, want.dims)
			continue
		}
		got, err := c.Floats(i)
		for k := range want.values {
			if err != nil || float64(got[k]) != want.values[k] {
				t.Fatalf("%s was written as %v, %v, want %v", want.name, got, err, want.values)
			}
		}
	}
	if len(c.Tensors) != len(file) {
		t.Errorf("got %d arrays, want %d", len(c.Tensors), len(file))
	}
}

// TestMapParts holds what is loaded of a file that fits in part, and what is said of the rest.
func TestMapParts(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "net", mapped, Config{FirstLook: true})
	first := flatWeights(t, n)
	change := func(at int, to ...stored) []stored { return slices.Concat(file[:at], to, file[at+1:]) }
	with := func(f func(m *weights.Map)) weights.Map {
		m := weights.Map{Names: slices.Clone(mappedNames.Names)}
		f(&m)
		return m
	}
	partial := with(func(m *weights.Map) { m.Partial = true })
	for _, tt := range []struct {
		name string
		file []stored
		how  weights.Map
		want []float32 // what is loaded: -1 stands for what the net had; nil: an error
		say  []string  // of the table or the error
	}{
		{"another head", change(5, stored{"head.weight", "F32", []int{3, 2}, make([]float64, 6)}), partial, slices.Concat(loaded[:20], []float32{-1, -1}, loaded[22:]),
			[]string{"loaded 7 of 8", "kept      head/weights", "head.weight is [3 2], want [1 2]"}},
		{"another head, strict", change(5, stored{"head.weight", "F32", []int{3, 2}, make([]float64, 6)}), mappedNames, nil, []string{"head.weight is [3 2], want [1 2]"}},
		{"no head", file[:5], partial, slices.Concat(loaded[:20], []float32{-1, -1, -1}), []string{"the file has no head.bias"}},
		{"no head, strict", file[:5], mappedNames, nil, []string{"missing: head.weight [1 2], head.bias [1]"}},
		{"surplus", slices.Concat(file, []stored{{"lm.mask", "I64", []int{1}, []float64{1}}}), partial, loaded, []string{"not used  lm.mask", "no variable has this name"}},
		{"surplus, strict", slices.Concat(file, []stored{{"lm.mask", "I64", []int{1}, []float64{1}}}), mappedNames, nil, []string{"surplus: lm.mask [1]"}},
		{"surplus, ignored", slices.Concat(file, []stored{{"lm.mask", "I64", []int{1}, []float64{1}}}), with(func(m *weights.Map) { m.Ignore = []string{"*.mask"} }), loaded, []string{"it is in Ignore"}},
		{"the body only", file, with(func(m *weights.Map) { m.Only = []string{"block", "pair/*"} }), slices.Concat(loaded[:20], []float32{-1, -1, -1}), []string{"not in Only"}},
		{"array of two parts too short", change(4, stored{"qk", "F32", []int{2, 3}, make([]float64, 6)}), mappedNames, nil, []string{"qk is [2 3], want [2 2] at 2 to 4 of axis 1"}},
		{"nothing fits", []stored{{"a", "F32", []int{1}, []float64{1}}}, partial, nil, []string{"missing: h.0.weights [2 2]", "surplus: a [1]"}},
		{"Only of no layer", file, with(func(m *weights.Map) { m.Only = []string{"blok/*"} }), nil, []string{`no variable matches "blok/*"`}},
		{"a star too many", file, weights.Map{Names: []weights.Name{{Variable: "a", Array: "b*"}}}, nil, []string{"no more stars"}},
		{"a part of nothing", file, weights.Map{Names: []weights.Name{{Variable: "a", Array: "b", From: 2, To: 1}}}, nil, []string{"part 2 to 1 of axis 0"}},
		{"an order of other axes", file, weights.Map{Names: []weights.Name{{Variable: "head/weights", Array: "head.weight", Order: []int{0, 0}}}}, nil, []string{"Order [0 0] of head/weights [2 1]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			zeros := make([]Tensor, 0)
			all, err := n.Weights()
			for _, w := range all {
				zeros = append(zeros, Tensor{Name: w.Name, Dims: w.Dims, Data: first[:len(w.Data)]})
			}
			if err == nil {
				err = n.SetWeights(zeros)
			}
			if err != nil {
				t.Fatal(err)
			}
			before := flatWeights(t, n)
			path := filepath.Join(t.TempDir(), "x.safetensors")
			store(t, path, tt.file...)
			table, err := n.LoadWeights(path, tt.how)
			said, want := table.String(), slices.Clone(tt.want)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				said, want = err.Error(), before
			}
			for _, say := range tt.say {
				if !strings.Contains(said, say) {
					t.Errorf("got %s\nwant %q in it", said, say)
				}
			}
			for i, x := range want {
				if x == -1 {
					want[i] = before[i]
				}
			}
			if got := flatWeights(t, n); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestAdapted holds that LoRA and Int8 of no layer are refused, that a net with them has no
// kernels that would leave them out, and that a new LoRA changes nothing.
func TestAdapted(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "two", Input: []int{3}, Layers: []models.Layer{models.Dense{Name: "a", Units: 4, Act: models.ReLU}, models.Dense{Name: "b", Units: 2}}}
	x := []float32{1, -2, 3, 0.5, 0.25, -1}
	plain, err := attach(t, s, "plain", net, Config{Seed: 1, FirstLook: true}).Predict(x)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		lora models.LoRA
		int8 []string
		want string
	}{
		{"LoRA", models.LoRA{Rank: 2, Names: []string{"a", "b"}}, nil, ""},
		{"both", models.LoRA{Rank: 2, Names: []string{"b"}}, []string{"*"}, ""},
		{"default", models.LoRA{Rank: 2}, nil, `no layer matches the pattern "*/query"`},
		{"another layer", models.LoRA{}, []string{"a", "c"}, `no layer matches the pattern "c"`},
	} {
		net.LoRA, net.Int8 = tt.lora, tt.int8
		n, err := Attach(s, "net", net, Config{Seed: 1})
		if tt.want != "" {
			_, summary := New("net", net, Config{}).Summary()
			for _, err := range []error{err, summary} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
				}
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fused.NewPlan(net); err == nil {
			t.Errorf("%s: there are kernels for it", tt.name)
		}
		all, err := attach(t, s, "plain", models.Net{Name: "two", Input: []int{3}, Layers: net.Layers}, Config{Seed: 1, FirstLook: true}).Weights()
		if err == nil {
			err = n.SetWeights(all)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := n.Predict(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range plain.Output {
			if off := p.Output[i] - want; off > 0.05 || off < -0.05 || tt.int8 == nil && (off > 1e-5 || off < -1e-5) {
				t.Errorf("%s: got %v, want %v", tt.name, p.Output, plain.Output)
			}
		}
		if r, err := n.recipe(); err != nil || r.Model.LoRA.Rank != tt.lora.Rank || len(r.Model.Int8) != len(tt.int8) {
			t.Errorf("%s: the recipe has %+v, %v, %v", tt.name, r.Model.LoRA, r.Model.Int8, err)
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}
