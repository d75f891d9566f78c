package notebook

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/cell/parse"
)

// Check finds what is wrong in the Go code of cells, as if they ran one after another, and runs
// nothing. The Cell of a diagnostic is the number of its cell, from 1. What a wrong cell would
// have defined is not held against the cells after it.
func (n *Notebook) Check(ctx context.Context, cells []string) (found []parse.Diagnostic, err error) {
	if err := n.open(); err != nil {
		return nil, err
	}
	n.building.Lock()
	defer n.building.Unlock()
	composer := &keep.Composer{Module: n.module, Memory: &keep.Memory{}}
	missing, anything := map[string]bool{}, false // what wrong cells would have defined
	for i, text := range cells {
		plan, err := n.table().Parse(text)
		if err != nil {
			anything = true
			continue // only running a magic tells what is wrong with it
		}
		if !plan.HasGo() {
			continue
		}
		source := parse.Source{ID: i + 1, Text: plan.Go, Main: plan.Main, Call: plan.Call, Args: plan.Args, Test: plan.Test, Keep: true}
		program, err := composer.Compose(ctx, source)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			composer.Suppose(program)
			continue
		}
		var wrong *parse.BuildError
		if errors.As(err, &wrong) {
			found = append(found, slices.DeleteFunc(slices.Clone(wrong.Diagnostics), func(d parse.Diagnostic) bool {
				name, undefined := strings.CutPrefix(d.Message, "undefined: ")
				return d.Cell != i+1 || undefined && (anything || missing[name])
			})...)
		}
		u, err := parse.Parse(source)
		if err != nil {
			anything = true
			continue
		}
		for _, d := range u.Decls {
			for _, name := range d.Names {
				missing[name] = true
			}
		}
		for _, d := range u.Definitions {
			for _, name := range d.Names {
				missing[name] = true
			}
		}
	}
	return found, nil
}
