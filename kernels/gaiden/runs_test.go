package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/fit/result"
	"gaiden/lib/runs"
)

func TestRunsMagic(t *testing.T) {
	dir := t.TempDir()
	h := &result.History{Losses: []float32{1, 0.5}, Steps: 2, Epochs: []result.Epoch{{Number: 1, Train: result.Score{Loss: 0.75}}}}
	for _, name := range []string{"first", "second"} {
		if _, err := runs.Save(filepath.Join(dir, "runs", name), runs.Run{Net: name + " net", Code: "the code"}, h); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ cell, want string }{
		{"%runs", "second net"},
		{"%runs loss", "0.75"},
		{"%runs show first", "the code"},
		{"%runs show runs/first", "the code"},
		{"%runs show frist", "did you mean first?"},
		{"%runs lost", "did you mean loss?"},
		{"%runs show first second", "%runs [-d FOLDER]"},
		{"%runs -d", "%runs [-d FOLDER]"},
		{"%runs -d empty", "no runs"},
		{"%runs -d empty show first", `fit.Train{Log: "empty/first"}`},
		{"%runs " + filepath.Join(dir, "runs"), "is a folder: want %runs -d "},
		{"%runs -d " + filepath.Join(dir, "runs") + " show second", "second net"},
	} {
		plan, err := runsMagics(nil).Parse(tt.cell)
		if err != nil {
			t.Fatal(err)
		}
		var shown page
		if err := runsMagic(dir, &shown, plan.Commands[0]); err != nil {
			var usage *magic.ArgumentError
			if !errors.As(err, &usage) && !strings.HasPrefix(err.Error(), "%runs: ") {
				t.Errorf("%s: got %v, want an error of the magic", tt.cell, err)
			}
			shown.WriteString(err.Error())
		}
		if !strings.Contains(shown.String(), tt.want) {
			t.Errorf("%s: got %q, want %q", tt.cell, shown.String(), tt.want)
		}
	}
}
