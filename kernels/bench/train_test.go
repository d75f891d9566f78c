package main

import (
	"cmp"
	"io"
	"strings"
	"testing"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/timing"
)

// TestTrainCases holds that each case's data fit its net, and that the peers know
// its layers, loss and optimizer.
func TestTrainCases(t *testing.T) {
	for _, c := range netCases {
		if c.name == "" || c.n%c.batch != 0 {
			t.Errorf("%s: got %d examples, want some batches of %d", c.name, c.n, c.batch)
		}
		if err := c.model.Check(); err != nil {
			t.Error(err)
		}
		if _, err := c.describe(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range trainCases {
		size := 1
		for _, d := range c.model.Input {
			size *= d
		}
		many := cmp.Or(c.n, c.few)
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
		if _, err := c.describe(); err != nil {
			t.Error(err)
		}
	}
	for _, a := range accuracyCases {
		caseOf(a.name) // panics where there is none
	}
}

// TestPrintTrain holds that the table has a line for each way, with what was
// measured of it.
func TestPrintTrain(t *testing.T) {
	one := func(name, subject string, median float64) timing.Record {
		return timing.Record{Case: name, Subject: subject, Median: median, Low: median, High: median, Machine: "m"}
	}
	b := bench{name: "train", records: []timing.Record{
		one("mlp-b100", "gaiden epoch", 50), one("mlp-b100", "gaiden epoch, bf16", 40), one("mlp-b100", "PyTorch eager", 1000),
		one("mlp-b100-kernels", "gaiden epoch", 16.2), one("mlp-b100-first", "gaiden epoch", 2),
	}}
	var w strings.Builder
	b.print(&w)
	for _, want := range []string{"mlp-b100  gaiden epoch        50 ", "2e+06", "16.2", "2.00 s", "PyTorch eager"} {
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

// TestVariants holds that every way of training but the first changes something.
func TestVariants(t *testing.T) {
	for i, v := range variants {
		var c fit.Config
		v.change(&c)
		if plain := c.Kernels == fit.AutoKernels && !c.BF16; plain != (i == 0) {
			t.Errorf("%q: got a configuration that is as usual: %t", v.name, plain)
		}
	}
}

// TestCommandLine holds what is said of wrong words and flags, before anything is measured.
func TestCommandLine(t *testing.T) {
	for _, tt := range []struct{ args, want, printed string }{
		{"", "usage", "random"},
		{"dispach", `no benchmark "dispach"`, ""},
		{"session all", `session: got ["all"] after it, want flags only`, ""},
		{"train -rounds 0", "-rounds: got 0, want 1 or more", ""},
		{"train -json /nonexistent/x.json", "write /nonexistent/x.json: no such file", ""},
		{"train -roundz 3", "usage", "-roundz"},
	} {
		var stderr strings.Builder
		err := run(strings.Fields(tt.args), io.Discard, &stderr)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(stderr.String(), tt.printed) {
			t.Errorf("bench %s: got %v and %q, want %q and %q", tt.args, err, stderr.String(), tt.want, tt.printed)
		}
	}
}
