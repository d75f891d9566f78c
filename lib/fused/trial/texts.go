package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/optim"
)

// texts writes the programs of the value cases, as they are for CUDA, into a
// directory: sanitize.py runs their kernels without a session. It needs no GPU. With
// -tilings they are also those of every tiling of each op that is compared or timed.
func texts(set settings) error {
	for i, p := range written(set.tilings) {
		if !set.only.MatchString(p.name()) {
			continue
		}
		text, err := p.text()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(set.texts, fmt.Sprintf("%04d.mlir", i)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sheet is a case to be written, with a tiling for its op if that is not nil.
type sheet struct {
	operation
	tile *kernels.Tile
}

func (p sheet) name() string {
	if p.tile == nil {
		return p.operation.name
	}
	return p.operation.name + " " + p.tile.String()
}

func (p sheet) text() ([]byte, error) {
	if p.tile == nil {
		return p.operation.text()
	}
	c := p.operation
	build := c.Build
	c.Build = func(o fused.Ops, in []*Node) []*Node {
		o.Choose = tiled(p.op, *p.tile)
		return build(o, in)
	}
	return c.text()
}

// written are the cases whose programs are written. The norms of ResNet50 are among them
// at its batch: no value case has its sizes, since ResNet152's are the same but for the rows.
// So is the FCN's step at a batch of 65: at its own, 1,024, racecheck would watch each product
// for minutes.
func written(tilings bool) (l []sheet) {
	cases := valueCases()
	for _, bf16 := range []bool{false, true} {
		cases = append(append(cases, resNet(256, bf16)...), step(fcn(), 65, optim.SGD{}.Rule(), bf16))
	}
	for _, c := range cases {
		l = append(l, sheet{c, nil})
	}
	if !tilings {
		return l
	}
	seen := map[string]bool{}
	for _, c := range append(cases, timeCases()...) {
		if c.op == nil || seen[c.name] {
			continue
		}
		seen[c.name] = true
		for _, t := range c.op.Tiles() {
			l = append(l, sheet{c, &t})
		}
	}
	return l
}

// text is a case's program as it is for CUDA.
func (c operation) text() ([]byte, error) {
	p, err := tiling.Write(c.name, "cuda", hlo.DefaultPrecision, c.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
		return c.Build(fused.Ops{Builder: b, Compute: kind(c.bf16)}, in)
	})
	if err != nil {
		return nil, err
	}
	return p.Text(nil), nil
}

// sum is that of the text, "" if there is none.
func (c operation) sum() string {
	text, err := c.text()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:12]
}

// record is what a file says of a case.
type record struct{ name, sum string }

// records are the cases that the files of a folder, or a file, have as right on a
// GPU, each with the text that it had then.
func records(path string) (map[record]bool, error) {
	files := []string{path}
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if st.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
			return nil, err
		}
	}
	known := map[record]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var r report
		if json.Unmarshal(b, &r) != nil {
			continue // of something else
		}
		for _, v := range r.Values {
			if v.OK && len(v.Kernel) > 0 {
				known[record{v.Case, v.Sum}] = true
			}
		}
	}
	return known, nil
}
