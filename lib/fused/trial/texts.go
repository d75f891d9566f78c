package main

import (
	"fmt"
	"os"
	"path/filepath"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
)

// texts writes the programs of the value cases, as they are for CUDA, into a
// directory: sanitize.py runs their kernels without a session. It needs no GPU.
func texts(set settings) error {
	if err := os.MkdirAll(set.texts, 0o755); err != nil {
		return err
	}
	for i, c := range valueCases() {
		if !set.only.MatchString(c.name) {
			continue
		}
		p, err := tiling.Write(c.name, "cuda", hlo.DefaultPrecision, c.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
			return c.Build(fused.Ops{Builder: b, Compute: kind(c.bf16)}, in)
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(set.texts, fmt.Sprintf("%03d.mlir", i)), p.Text(nil), 0o644); err != nil {
			return err
		}
	}
	return nil
}
