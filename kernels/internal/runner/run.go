package runner

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"gaiden/kernels/internal/jupyter"
)

// A Run executes notebooks. Interpreter must be set.
type Run struct {
	Interpreter jupyter.Interpreter

	// Progress is called before and after each code cell; nil = nobody looks.
	Progress func(Step)

	// Now is the clock that says when a cell ran; nil = time.Now.
	Now func() time.Time

	// Timeout is how long one cell may take; 0 = as long as it wants.
	Timeout time.Duration
}

// A Step is a code cell that begins or has ended.
type Step struct {
	Cell, Cells int // number of the code cell, from 1, and how many there are
	Done        bool
	Skipped     bool
	Took        time.Duration
	Err         *jupyter.Error // it failed
}

// String returns a line such as "cell 3 of 12: 0.42 s".
func (s Step) String() string {
	place := fmt.Sprintf("cell %d of %d", s.Cell, s.Cells)
	switch {
	case !s.Done:
		return place
	case s.Skipped:
		return place + ": skipped"
	case s.Err != nil:
		return fmt.Sprintf("%s: %s after %.2f s", place, s.Err.Name, s.Took.Seconds())
	}
	return fmt.Sprintf("%s: %.2f s", place, s.Took.Seconds())
}

// A CellError reports the cell that ended a run.
type CellError struct {
	Cell int // number of the code cell, from 1
	Err  *jupyter.Error
}

func (e *CellError) Error() string {
	return fmt.Sprintf("runner: cell %d failed: %s: %s", e.Cell, e.Err.Name, e.Err.Value)
}

// Execute runs the notebook's code cells in order and puts their outputs into
// it. It ends with the first cell that fails, whose *CellError it returns; the
// document has all outputs up to there, the error included. When ctx ends, the
// cell that runs is stopped.
func (r *Run) Execute(ctx context.Context, d *Document) error {
	d.setLanguage(r.Interpreter.Info().Language)
	var code []map[string]any
	for _, c := range d.cells {
		if c["cell_type"] == "code" {
			c["outputs"], c["execution_count"] = []any{}, nil
			dropTimes(c)
			code = append(code, c)
		}
	}
	shared := displays{}
	all := make([]*outputs, len(code))
	// A later cell may update what an earlier one displays, so all are written
	// down in the end.
	defer func() {
		for i, o := range all {
			if o != nil {
				code[i]["outputs"] = o.written()
			}
		}
	}()
	count := 0
	for i, c := range code {
		step := Step{Cell: i + 1, Cells: len(code)}
		r.progress(step)
		step.Done = true
		if tagged(c, "skip-execution") || text(c["source"]) == "" {
			step.Skipped = true
			r.progress(step)
			continue
		}
		count++
		c["execution_count"] = count
		all[i] = &outputs{displays: shared, count: count}
		began := r.now()
		step.Err = r.cell(ctx, c, count, all[i])
		ended := r.now()
		step.Took = ended.Sub(began)
		setTimes(c, began, ended)
		r.progress(step)
		if step.Err == nil {
			continue
		}
		all[i].fail(step.Err)
		if !tagged(c, "raises-exception") || ctx.Err() != nil {
			return &CellError{i + 1, step.Err}
		}
	}
	return nil
}

func (r *Run) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Run) cell(ctx context.Context, c map[string]any, count int, out *outputs) (err *jupyter.Error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	defer func() {
		if v := recover(); v != nil {
			err = &jupyter.Error{Name: "KernelPanic", Value: fmt.Sprint(v), Traceback: []string{fmt.Sprint("KernelPanic: ", v), string(debug.Stack())}}
		}
	}()
	id, _ := c["id"].(string)
	result := r.Interpreter.Execute(ctx, jupyter.ExecuteRequest{Code: text(c["source"]), Count: count, StopOnError: true, Cell: id}, out)
	for _, p := range result.Payload {
		if next, is := p["text"].(string); is && p["source"] == "set_next_input" && p["replace"] == true {
			c["source"] = lines(next) // as Jupyter does
		}
	}
	return result.Err
}

func (r *Run) progress(s Step) {
	if r.Progress != nil {
		r.Progress(s)
	}
}
