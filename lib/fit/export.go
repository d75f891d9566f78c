package fit

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/data"
	"gaiden/lib/export"
)

// Export writes the net as Evaluate uses it, for use without Gaiden: a Go module to a directory,
// ONNX to a file that ends in .onnx.
func (n *Net) Export(path string) error {
	n.mu.Lock()
	n.recall()
	e, err := n.exported()
	n.mu.Unlock()
	if err != nil {
		return err
	}
	if n.model.Input == nil && n.model.Inputs == nil {
		return n.wantInput(errors.New("its export needs examples"))
	}
	examples := export.Examples(n.model)
	var rows []data.Row
	if e != nil && len(rowsOf(e).Columns()) > 0 {
		rows = export.Rows(rowsOf(e))
		inputs, err := rowsOf(e).Inputs(rows)
		if err != nil {
			return fmt.Errorf("fit: %s: export: %w", n.name, err)
		}
		for i, in := range n.model.AllInputs() {
			examples[i] = inputs[in.Name]
		}
	}
	var x any = examples[0]
	if n.model.Inputs != nil {
		named := Inputs{}
		for i, in := range n.model.Inputs {
			named[in.Name] = examples[i]
		}
		x = named
	}
	return n.withExamples("Export", x, func(ctx context.Context, s *Set) error {
		used, err := n.averaged()
		if err != nil {
			return err
		}
		steps, err := n.stepsDone()
		if err != nil {
			return err
		}
		out := export.Net{Name: n.name, Space: n.session.Space(), Model: n.model, Steps: steps, Narrow: n.config.narrows(), Examples: examples, Rows: rows}
		if e != nil {
			out.Encoder, out.Reading = rowsOf(e), n.reading(e)
		}
		values := map[string]slot{}
		for i, v := range n.layout.variables {
			values[v.name] = used[i]
			out.Variables = append(out.Variables, export.Variable{Name: v.name, Path: v.path, From: n.name + "/" + used[i].name, Shape: v.shape, Trainable: v.trainable})
		}
		out.Value = func(v export.Variable) (any, error) { return n.value(values[v.Name]) }
		out.Predict = func() ([]float32, error) {
			p, err := n.predict(ctx, s)
			if err != nil {
				return nil, err
			}
			return p.Output, nil
		}
		if err := export.Write(path, out); err != nil {
			return fmt.Errorf("fit: %s: export: %w", n.name, err)
		}
		return nil
	})
}

// exported is the encoder that goes with an export, nil where the net has none.
func (n *Net) exported() (*data.Encoder, error) {
	if n.whole != nil {
		return nil, nil
	}
	if err := n.connect(); err != nil {
		return nil, err
	}
	e, err := n.encoder()
	if e == nil || err != nil || len(rowsOf(e).Columns()) == 0 {
		return e, err
	}
	got := map[string]int{}
	for _, in := range n.model.AllInputs() {
		got[in.Name] = in.Batch(1).Size()
	}
	if want := rowsOf(e).Sizes(); !maps.Equal(got, want) {
		return nil, fmt.Errorf("fit: %s: export: the net takes other inputs than the encoder of its training data makes: got %s, want %s: train it on examples of these, or call net.Reset", n.name, sizesText(got), sizesText(want))
	}
	return e, nil
}

// value is the value of a slot, as a flat slice of its type.
func (n *Net) value(s slot) (any, error) {
	arrays, err := n.state([]slot{s})
	if err != nil {
		return nil, err
	}
	defer free(arrays...)
	flat := dtypes.MakeAnySlice(s.shape.DType, s.shape.Size())
	return flat, arrays[0].Values(flat)
}
