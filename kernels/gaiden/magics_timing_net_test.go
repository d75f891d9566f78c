package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/magic"
)

// declared is a %list of a notebook with two nets.
func declared() *magic.Row {
	return &magic.Row{Name: "%list", Run: func(_ context.Context, h magic.Host, _ magic.Command) error {
		h.Show(map[string]any{"text/plain": "func    must                 cell 1    func must[T any](v T, err error) T { …\n" +
			"var     net                  cell 2    net = fit.New(\"cnn\", models.SeedCNN(), fit.Config{Seed: 1})\n" +
			"var     slow                 cell 3    slow = fit.New(\"slow/er\", seed(models.IndexedFill), fit.Config{}) …\n" +
			"var     x                    cell 4    x = 3\n"})
		return nil
	}}
}

func TestNetMagics(t *testing.T) {
	tests := []struct {
		cell string
		want string // in the program
		err  string
	}{
		{"%phases net", `(gaidenreport.Profiler{Net: net, Data: "", Options: gaidenprofile.Options{Batch: 0, Budget: 0, Shallow: false, AllOps: false, NoErrors: false, NoEpoch: false}}).Phases()`, ""},
		{"%phases -b 8 -t 0.5 -s -a -e net mnist/train", `Data: "mnist/train", Options: gaidenprofile.Options{Batch: 8, Budget: 500000000, Shallow: true, AllOps: true, NoErrors: true, NoEpoch: true}`, ""},
		{"%phases cnn", "Profiler{Net: net,", ""},
		{"%phases slow/er", "Profiler{Net: slow,", ""},
		{"%phases", "Profiler{Net: only,", ""},
		{"%bottleneck -b 4", "Profiler{Net: only,", ""},
		{"%sweep -b 16", "Profiler{Net: only,", ""},
		{"%phases nets[0].x", "Profiler{Net: nets[0].x,", ""},
		{"%bottleneck net", ").Bottleneck()", ""},
		{"%roofline", "gaidenreport.RooflineOf(false)", ""},
		{"%roofline -again", "gaidenreport.RooflineOf(true)", ""},
		{"%roofline -b 64 net", "Batch: 64", ""},
		{"%sweep", `gaidenreport.SweepOf("sigmoid", 26)`, ""},
		{"%sweep -phi relu -n 12", `gaidenreport.SweepOf("relu", 12)`, ""},
		{"%sweep -b 256 net", ").Batches()", ""},
		{"%phases", "", `got no net, want %phases [-b N] [-t T] [-s] [-a] [-e] [NET [DATA]]; there are: net ("cnn"), slow ("slow/er")`},
		{"%phases a b c", "", "want %phases [-b N]"},
		{"%phases -b 0 net", "", `-b: got "0", want a number above 0`},
		{"%phases -b 1.5 net", "", `-b: got "1.5"`},
		{"%phases -t -3 net", "", `-t: got "-3"`},
		{"%phases -b", "", `-b: got ""`},
		{"%phases -x net", "", "got the option -x, want %phases"},
		{"%phases --shallow net", "", "got the option --shallow"},
		{"%roofline -agian", "", "did you mean -again?"},
		{"%sweep -ph relu", "", "did you mean -phi?"},
		{"%phases os.Exit(1);net", "", "want a variable or a name in the session"},
		{"%phases cn/n", "", "did you mean cnn?"},
		{"%roofline -again net", "", "-again measures the device"},
		{"%sweep -phi", "", "want %sweep"},
		{"%sweep -b 16", "", "got no net, want %sweep"},
		{"%roofline -t 0.1", "", "got no net, want %roofline"},
		{"%sweep -n x", "", `-n: got "x"`},
	}
	one := func() *magic.Row {
		return &magic.Row{Name: "%list", Run: func(_ context.Context, h magic.Host, _ magic.Command) error {
			h.Show(map[string]any{"text/plain": "var     only                 cell 2    only = fit.New(\"cnn\", models.SeedCNN(), fit.Config{Seed: 1})"})
			return nil
		}}
	}
	for _, tt := range tests {
		h, list := &host{}, declared
		if strings.Contains(tt.want, "Net: only,") {
			list = one
		}
		plan, err := netMagics(list).Parse(tt.cell)
		if err != nil {
			t.Fatal(err)
		}
		c := plan.Commands[0]
		err = c.Row.Run(t.Context(), h, c)
		switch {
		case tt.err == "" && (err != nil || !strings.Contains(strings.Join(h.texts, ""), tt.want)):
			t.Errorf("%s: got %q, %v, want a program with %s", tt.cell, h.texts, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: got %v, want an error with %s", tt.cell, err, tt.err)
		case tt.err != "" && len(h.texts) > 0:
			t.Errorf("%s: ran %q", tt.cell, h.texts)
		}
	}
}

// A net that is none is named, with what was probably meant.
func TestNetIsNone(t *testing.T) {
	tests := []struct{ word, message, want string }{
		{"nett", "undefined: nett", "got nett, want a net (undefined: nett); did you mean net?"},
		{"x", "cannot use x (variable of type int) as *fit.Net value in struct literal", `want a net (cannot use x (variable of type int)`},
		{"x", "something else", "something else"},
	}
	for _, tt := range tests {
		h := &host{fail: func(text string) error {
			line, column, _ := lineAt(text, strings.Index(text, "Net: ")+5)
			return &parse.BuildError{Diagnostics: []parse.Diagnostic{{Line: line, Column: column, Message: tt.message}}}
		}}
		plan, err := netMagics(declared).Parse("%bottleneck " + tt.word)
		if err != nil {
			t.Fatal(err)
		}
		c := plan.Commands[0]
		if err := c.Row.Run(t.Context(), h, c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %s", tt.word, err, tt.want)
		}
	}
	h := &host{fail: func(string) error { return errors.New(failureMark + "fit: no data set \"x\"") }}
	plan, err := netMagics(declared).Parse("%bottleneck net x")
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Commands[0].Row.Run(t.Context(), h, plan.Commands[0]); err == nil || err.Error() != `fit: no data set "x"` {
		t.Errorf("a magic that failed: got %v, want its error without a mark", err)
	}
	if got, want := knownNets("a", map[string]string{}), "make one in a cell before"; !strings.Contains(got, want) {
		t.Errorf("no net at all: got %q, want %q in it", got, want)
	}
}

func TestProfileMagic(t *testing.T) {
	tests := []struct{ cell, want, err string }{
		{"%%profile\nf()", `StartRecorder("")`, ""},
		{"%%profile -o trace.json\nf()", `StartRecorder("trace.json")`, ""},
		{"%%profile trace.json\nf()", "", "want %%profile [-o trace.json]"},
		{"%%profile -o\nf()", "", "want %%profile [-o trace.json]"},
		{"%%profile\n", "", "got no lines below it, want the code there that it is for: %%profile [-o trace.json]"},
	}
	for _, tt := range tests {
		h := &host{}
		err := runMagic(t, h, tt.cell)
		if tt.err == "" && (err != nil || len(h.texts) != 1 || h.kept != 1 || !strings.Contains(h.texts[0], tt.want)) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: got %q, %v, want %q, %q", tt.cell, h.texts, err, tt.want, tt.err)
		}
	}
}
