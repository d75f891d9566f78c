package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/timing"
)

// TestTrainCases holds that each case's data fit its net, and that the peers' scripts
// have every case with the same batch, and as many examples and epochs.
func TestTrainCases(t *testing.T) {
	for _, c := range trainCases {
		size := 1
		for _, d := range c.model.Input {
			size *= d
		}
		many, few := cmp.Or(c.n, c.few), cmp.Or(c.few, c.n)
		c.n = min(many, 2*c.batch)
		d, n := c.examples(), 0
		switch x := d.X.(type) {
		case []byte:
			n = len(x)
		case []float32:
			n = len(x)
		}
		if n != c.n*size {
			t.Errorf("%s: got %d numbers, want %d examples of %d", c.name, n, c.n, size)
		}
		if y, is := d.Y.([]float32); d.V != nil && (!is || len(d.V) != len(y)) {
			t.Errorf("%s: got %d weights for a %T of %d: want one for each", c.name, len(d.V), d.Y, len(y))
		}
		if c.few%c.batch > 0 && c.few < c.batch {
			t.Errorf("%s: %d examples on a CPU: want a batch of %d at least", c.name, c.few, c.batch)
		}
		for script, want := range map[string]string{
			"train_jax.py":   fmt.Sprintf(`, %d, %d, %d, %d, `, c.batch, many, few, max(1, c.epochs)),
			"train_torch.py": fmt.Sprintf(`"%s": (%d, %d, %d, `, c.name, c.batch, many, few),
		} {
			code, err := peers.ReadFile("peers/" + script)
			_, row, _ := strings.Cut(string(code), "\n    \""+c.name)
			row, _, _ = strings.Cut("\""+c.name+row, "\n")
			if err != nil || !strings.Contains(row, want) {
				t.Errorf("%s: got %q, %v, want it to hold %q", script, row, err, want)
			}
		}
	}
	for _, a := range accuracyCases {
		caseOf(a.name) // panics where there is none
		code, err := peers.ReadFile("peers/accuracy_torch.py")
		if err != nil || !strings.Contains(string(code), `"`+a.name+`": (`) {
			t.Errorf("accuracy_torch.py: no %s in it, %v", a.name, err)
		}
	}
}

// TestPrintTrain holds that the table has a line for each way, with what was
// measured of it, and shares of the right peak.
func TestPrintTrain(t *testing.T) {
	one := func(name, subject string, median float64) timing.Record {
		return timing.Record{Case: name, Subject: subject, Median: median, Low: median, High: median, Machine: "m"}
	}
	b := bench{name: "train", records: []timing.Record{
		one("mlp-b100", "gaiden epoch", 50), one("mlp-b100", "gaiden epoch, bf16", 40), one("mlp-b100", "PyTorch eager", 1000),
		one("mlp-b100-kernels", "gaiden epoch", 16.2), one("mlp-b100-first", "gaiden epoch", 2), one("mlp-b100-work", "step", 1),
		one("peak", "products", 200), one("peak", "products, bf16", 400),
	}}
	var w strings.Builder
	b.print(&w)
	for _, want := range []string{"mlp-b100  gaiden epoch        50 ", "2e+06", "16.2", "2.00 s", "10 %", "6.2 %", "PyTorch eager", "0.5 %"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("table: got\n%s\nwant it to hold %q", w.String(), want)
		}
	}
}

func TestFramed(t *testing.T) {
	x := make([]byte, 2*28*28)
	x[28*28+27] = 7 // second image, first row, last column
	if got := framed(x, []int{28, 28, 1}); len(got) != len(x) {
		t.Errorf("28×28: got %d bytes, want %d", len(got), len(x))
	}
	got := framed(x, models.LeNet5().Input)
	if len(got) != 2*32*32*3 {
		t.Fatalf("32×32×3: got %d bytes, want %d", len(got), 2*32*32*3)
	}
	at := ((32+2)*32 + 29) * 3
	if got[at] != 7 || got[at+2] != 7 || got[at-1] != 0 || got[at+3] != 0 {
		t.Errorf("32×32×3: got %v around the bright pixel, want 0 7 7 7 0", got[at-1:at+4])
	}
}

// TestVariants holds that every way of training changes something.
func TestVariants(t *testing.T) {
	for _, v := range variants {
		c := trainCase{model: models.SeedCNN()}
		v.change(&c)
		plain := c.config.Kernels == fit.AutoKernels && !c.config.BF16 && c.config.Loop == fit.AutoLoop && c.config.Flags == nil && !c.config.FirstLook && !c.config.OneDNN
		if plain != (v.name == "") {
			t.Errorf("%q: got a case that is as usual: %t", v.name, plain)
		}
	}
}
