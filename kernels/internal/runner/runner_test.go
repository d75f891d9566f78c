package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/runner"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A script is an interpreter whose cells are lines of words: what to output.
type script struct{ jupyter.Interpreter }

func (script) Info() jupyter.LanguageInfo {
	return jupyter.LanguageInfo{Language: jupyter.Language{Name: "go", Version: "1.26", MIMEType: "text/x-go", FileExtension: ".go"}}
}

func (script) Execute(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
	for line := range strings.Lines(req.Code) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "out":
			out.Stream("stdout", []byte(rest+"\n"))
		case "err":
			out.Stream("stderr", []byte(rest+"\n"))
		case "half": // a character in two pieces
			out.Stream("stdout", []byte("世\n")[:1])
			out.Stream("stdout", []byte("世\n")[1:])
		case "show":
			out.Display(jupyter.MimeBundle{Data: map[string]any{"text/html": "<b>\n" + rest, "image/png": []byte{1, 2}, "application/json": map[string]any{"a": 1}}})
		case "id", "update":
			id, content, _ := strings.Cut(rest, " ")
			b := jupyter.MimeBundle{Data: map[string]any{"text/plain": content}, Transient: map[string]any{"display_id": id}}
			if word == "id" {
				out.Display(b)
			} else {
				out.Update(b)
			}
		case "value":
			out.Result(jupyter.MimeBundle{Data: map[string]any{"text/plain": rest}})
		case "clear":
			out.Clear(rest == "wait")
		case "fail":
			return jupyter.ExecuteResult{Err: &jupyter.Error{Name: "Oh", Value: rest, Traceback: []string{"Oh: " + rest}}}
		case "panic":
			panic(rest)
		case "ask":
			_, err := out.Input(ctx, "", false)
			out.Stream("stdout", []byte(fmt.Sprintln(errors.Is(err, jupyter.ErrNoStdin))))
		case "sleep":
			<-ctx.Done()
			return jupyter.ExecuteResult{Err: &jupyter.Error{Name: "Interrupted", Value: ctx.Err().Error()}}
		}
	}
	return jupyter.ExecuteResult{}
}

// TestGolden runs the notebooks in testdata and compares with what was written
// before; -update writes anew.
func TestGolden(t *testing.T) {
	tests := []struct {
		name  string
		fails string // part of the error
		steps string // what progress said, without times
	}{
		{"outputs", "", "1 2 3 4 5 skipped 6 skipped 7"},
		{"fails", "cell 2 failed: Oh: on purpose", "1 2 failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", tt.name+".ipynb"))
			if err != nil {
				t.Fatal(err)
			}
			d, err := runner.Read(data)
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			clock := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
			now := func() time.Time { clock = clock.Add(500 * time.Millisecond); return clock }
			run := runner.Run{Interpreter: script{}, Now: now, Progress: func(s runner.Step) {
				switch {
				case !s.Done:
					steps = append(steps, fmt.Sprint(s.Cell))
				case s.Skipped:
					steps = append(steps, "skipped")
				case s.Err != nil && tt.fails != "":
					steps = append(steps, "failed")
				}
			}}
			err = run.Execute(t.Context(), d)
			if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Fatalf("got error %v, want %q", err, tt.fails)
			}
			if got := strings.Join(steps, " "); got != tt.steps {
				t.Errorf("got steps %q, want %q", got, tt.steps)
			}
			got, err := d.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", tt.name+".golden.ipynb")
			if *update {
				os.WriteFile(golden, got, 0o644)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant %s", got, golden)
			}
			// A notebook that was run is a notebook that can be run.
			again, err := runner.Read(got)
			if err != nil {
				t.Fatal(err)
			}
			clock = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
			run.Execute(t.Context(), again)
			if twice, _ := again.Bytes(); !bytes.Equal(twice, want) {
				t.Errorf("got another file the second time:\n%s", twice)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"nothing", "", "no JSON object"},
		{"garbage", "{{{", "no JSON object"},
		{"a list", "[]", "no JSON object"},
		{"format 3", `{"nbformat": 3, "worksheets": []}`, "got nbformat 3, want 4"},
		{"no format", `{}`, "got JSON that has no nbformat, want a notebook"},
		{"no cells", `{"nbformat": 4}`, "no list of cells"},
		{"odd cell", `{"nbformat": 4, "cells": [1]}`, "cell 1 that is not an object"},
		{"Python", `{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "python"}}}`, "a notebook in python, want one in Go"},
	}
	for _, tt := range tests {
		_, err := runner.Read([]byte(tt.file))
		var fe *runner.FormatError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want a FormatError with %q", tt.name, err, tt.want)
		}
	}
}

func notebook(t *testing.T, cells ...string) *runner.Document {
	t.Helper()
	var list []any
	for _, c := range cells {
		list = append(list, map[string]any{"cell_type": "code", "source": c, "metadata": map[string]any{}})
	}
	data, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "cells": list})
	if err != nil {
		t.Fatal(err)
	}
	d, err := runner.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEnds: a cell that takes too long, a run that is stopped and an interpreter
// that panics end the run with the cell's error.
func TestEnds(t *testing.T) {
	tests := []struct {
		name    string
		cell    string
		timeout time.Duration
		stop    time.Duration
		want    string
	}{
		{"timeout", "sleep", 20 * time.Millisecond, 0, "deadline exceeded"},
		{"stop", "sleep", 0, 20 * time.Millisecond, "context canceled"},
		{"panic", "panic now", 0, 0, "KernelPanic: now"},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithCancel(t.Context())
		if tt.stop > 0 {
			time.AfterFunc(tt.stop, cancel)
		}
		err := (&runner.Run{Interpreter: script{}, Timeout: tt.timeout}).Execute(ctx, notebook(t, "out a", tt.cell, "out b"))
		cancel()
		var ce *runner.CellError
		if !errors.As(err, &ce) || ce.Cell != 2 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want a CellError of cell 2 with %q", tt.name, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"nbformat": 4, "metadata": {"kernelspec": null}, "cells": [{"cell_type": "code", "source": ["a"], "metadata": {"tags": [1, "x"]}}, {}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := runner.Read(data)
		if err != nil {
			return
		}
		(&runner.Run{Interpreter: script{}, Timeout: time.Millisecond}).Execute(t.Context(), d)
		if _, err := d.Bytes(); err != nil {
			t.Error(err)
		}
	})
}
