package trial

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/optim"
)

// texts writes the programs of the value cases, as they are for CUDA, into a
// directory: sanitize.py runs their kernels without a session. It needs no GPU.
func texts(set settings) error {
	for i, c := range written() {
		if !set.only.MatchString(c.name) {
			continue
		}
		text, err := c.text()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(set.texts, fmt.Sprintf("%04d.mlir", i)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// written are the cases whose programs are written. The norms of ResNet50 are among them
// at its batch: no value case has its sizes, since ResNet152's are the same but for the rows.
// So is the FCN's step at a batch of 65: at its own, 1,024, racecheck would watch each product
// for minutes.
func written() []operation {
	cases := valueCases()
	for _, bf16 := range []bool{false, true} {
		cases = append(append(cases, resNet(256, bf16)...), step(fcn(), 65, optim.SGD{}.Rule(), bf16))
	}
	return cases
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
