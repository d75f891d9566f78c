package main

import (
	"errors"
	"fmt"
	"strings"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/runner"
	"gaiden/lib/engine/typo"
)

// A setting is a value for a parameter of a notebook.
type setting struct{ name, value string }

// inject gives parameters of a notebook other values, in a cell below that of their
// defaults, as papermill does.
func inject(doc *runner.Document, settings []setting) error {
	if len(settings) == 0 {
		return nil
	}
	cell, found := doc.Parameters()
	if !found {
		return errors.New("parameters: no cell has the tag parameters: give it to the cell with the defaults (in JupyterLab: the gears on the right, Cell Tags)")
	}
	there, err := parse.Parameters(parse.Source{ID: 1, Text: cell})
	if err != nil {
		return fmt.Errorf("parameters: the cell with the defaults: want declarations such as rate := 0.1: %w", err)
	}
	var names []string
	by := map[string]parse.Parameter{}
	for _, p := range there {
		names, by[p.Name] = append(names, p.Name), p
	}
	var failed error
	code, last := "// Parameters", map[string]string{}
	for _, s := range settings {
		p, is := by[s.name]
		switch {
		case !is:
			near := ""
			if n := typo.Nearest(s.name, names); n != "" {
				near = fmt.Sprintf("; did you mean %s?", n)
			}
			failed = errors.Join(failed, fmt.Errorf("parameters: got %s, want one of %s%s", s.name, strings.Join(names, ", "), near))
			continue
		case last[s.name] != "":
			failed = errors.Join(failed, fmt.Errorf("parameters: got two values for %s", s.name))
			continue
		}
		line, err := p.Set(s.value)
		failed = errors.Join(failed, err)
		code, last[s.name] = code+"\n"+line, line
	}
	if failed == nil {
		doc.Inject(code)
	}
	return failed
}
