package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
	"gaiden/lib/timing"
)

// TestRandomCases holds that nets of a seed are the same each time, that those of two seeds
// differ, that all families, optimizers and losses come, and that each net can be built,
// has data for it and is one that the peers know.
func TestRandomCases(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(4) {
		for k := range 12 {
			c := randomCase(seed, k)
			d, err := c.describe()
			if err != nil {
				t.Fatal(err)
			}
			again, _ := randomCase(seed, k).describe()
			other, _ := randomCase(seed+100, k).describe()
			if other.Name = d.Name; !reflect.DeepEqual(d, again) || reflect.DeepEqual(d, other) {
				t.Errorf("%s: got %+v, then %+v, and of another seed %+v", c.name, d, again, other)
			}
			if err := c.model.Check(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.n < 10*c.batch || c.n%c.batch > 0 {
				t.Errorf("%s: got %d examples, want some batches of %d", c.name, c.n, c.batch)
			}
			drops := strings.Contains(kindsOf(d.Layers), "dropout")
			if family := strings.Split(c.name, "-")[2]; drops != (family == "dropout") || family == "norm" && !strings.Contains(kindsOf(d.Layers), "norm") {
				t.Errorf("%s: got layers %s", c.name, kindsOf(d.Layers))
			}
			for _, what := range append(strings.Fields(kindsOf(d.Layers)), d.Optimizer, d.Loss) {
				seen[what] = true
			}
		}
	}
	for _, want := range []string{"dense", "conv", "pool", "norm", "dropout", "lstm", "embedding", "sequential", "adam", "sgd", "adadelta", "cross entropy", "mean squared error"} {
		if !seen[want] {
			t.Errorf("got no %s in 48 nets", want)
		}
	}
}

func kindsOf(l []layer) string {
	var kinds []string
	for _, x := range l {
		kinds = append(kinds, x.Kind)
	}
	return strings.Join(kinds, " ")
}

// TestDescribe holds what the peers read of a net, and that a layer which they do not have is
// an error.
func TestDescribe(t *testing.T) {
	c := caseOf("kerascnn-b128")
	d, err := c.describe()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(d.Layers[:3])
	want := `[{"Kind":"conv","Name":"conv2d","Act":"relu","Units":32,"Kernel":3,"Stride":1,"Bias":true},` +
		`{"Kind":"conv","Name":"conv2d_1","Act":"relu","Units":64,"Kernel":3,"Stride":1,"Bias":true},{"Kind":"pool","Name":"max_pooling2d","Kernel":2,"Stride":2}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !d.Bytes || d.Loss != "cross entropy" || d.Optimizer != "adadelta" || d.Settings["rho"] != 0.95 || d.Batch != 128 || d.Examples != 60000 || d.Epochs != 5 {
		t.Errorf("got %+v", d)
	}
	c.model = models.Net{Name: "mine", Input: []int{28, 28, 1}, Function: func(_ *model.Scope, in models.Inputs) *graph.Node { return in["x"] }}
	if _, err := c.describe(); err == nil || !strings.Contains(err.Error(), "the peers have no layer") {
		t.Errorf("a function of the user's: got %v", err)
	}
}

// TestPrintRandom holds the ratios of a net's line, the means, and what is said of losses.
func TestPrintRandom(t *testing.T) {
	a, c, e := randomCase(7, 0).name, randomCase(7, 1).name, randomCase(7, 2).name
	one := func(name, subject string, median float64) timing.Record {
		unit := "µs"
		if strings.HasSuffix(name, "-loss") || strings.HasSuffix(name, "-repeat") {
			unit = "loss"
		}
		return timing.Record{Case: name, Subject: subject, Median: median, Machine: "m", Unit: unit}
	}
	b := bench{name: "random", seed: 7, nets: 3, records: []timing.Record{
		one(a, plainEpoch, 100), one(a, variants[1].name, 98), one(a, "JAX 1 scan", 400), one(a, "JAX 1 jit step", 900), one(a, "PyTorch 2 CUDA graph", 200),
		one(a+"-loss", "gaiden first step", 2), one(a+"-loss", "JAX 1 first step", 2.001), one(a+"-loss", "PyTorch 2 first step", 1.999),
		one(a+"-repeat", "gaiden", 0), one(e, plainEpoch, 200), one(e+"-loss", "gaiden first step", 2), one(e+"-repeat", "gaiden", 3),
		one(c, plainEpoch, 100), one(c, "JAX 1 scan", 50), one(c+"-loss", "gaiden first step", 2), one(c+"-loss", "JAX 1 first step", 3),
	}}
	var w strings.Builder
	b.print(&w)
	got := strings.Join(strings.Fields(w.String()), " ")
	for _, want := range []string{"100 98 400 200 2 0.980 equal in 2 peers", "100 the same 50 – 0.5 1.000", "JAX 1 first step: got 3, want 2",
		"best peer / Gaiden: geometric mean 1.000, worst 0.500, of 2 nets", "XLA's kernels / Gaiden: geometric mean 0.993, worst 0.980, of 3 nets", "3 of 20 losses differ"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want it to hold %q", got, want)
		}
	}
}
