package fit

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/export"
)

// Export writes the net as Evaluate uses it, for use without Gaiden: a Go module to a directory,
// ONNX to a file that ends in .onnx.
func (n *Net) Export(path string) error {
	ctx := n.context()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	used, err := n.averaged()
	if err != nil {
		return err
	}
	steps, err := n.stepsDone()
	if err != nil {
		return err
	}
	out := export.Net{Name: n.name, Space: n.session.Space(), Model: n.model, Steps: steps, Narrow: n.config.narrows()}
	for i, v := range n.layout.variables {
		out.Variables = append(out.Variables, export.Variable{Name: v.name, Path: v.path, From: n.name + "/" + used[i].name, Shape: v.shape, Trainable: v.trainable})
	}
	out.Value = func(v export.Variable) (any, error) {
		for i, s := range n.layout.variables {
			if s.path == v.Path {
				return n.value(used[i])
			}
		}
		return nil, fmt.Errorf("there is no variable %s", v.Name)
	}
	out.Predict = func(inputs []any) ([]float32, error) {
		x := inputs[0]
		if all := n.model.AllInputs(); n.model.Inputs != nil {
			named := Inputs{}
			for i, in := range all {
				named[in.Name] = inputs[i]
			}
			x = named
		}
		p, err := n.predictExamples(ctx, "Export", x)
		if err != nil {
			return nil, err
		}
		return p.Output, nil
	}
	if err := export.Write(path, out); err != nil {
		return fmt.Errorf("fit: %s: export: %w", n.name, err)
	}
	return nil
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
