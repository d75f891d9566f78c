package trial

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// value is how far a case's numbers are from the reference.
type value struct {
	Case   string    `json:"case"`
	Sum    string    `json:"sum"`    // of the program's text
	OK     bool      `json:"ok"`     // it is not Bad
	Kernel []float64 `json:"kernel"` // relative error of each output
	Plain  []float64 `json:"plain"`
	// Moved are, of outputs that take an input's place, the kernel's errors over how
	// far the reference is from that input: 1 is a kernel that did nothing.
	Moved       map[int]float64 `json:"moved,omitempty"`
	MovedBeside map[int]float64 `json:"moved_plain,omitempty"`
	Worst       float64         `json:"worst"` // the largest single difference, over the largest number of the reference
	Beside      float64         `json:"worst_plain"`
	Limit       float64         `json:"limit"`
	Times       float64         `json:"times_plain,omitempty"` // or as far as the plain form is, so many times
	Again       bool            `json:"again"`                 // a second run gave the same bits
	Note        string          `json:"note,omitempty"`
	loose       map[int]float64
	moves       map[int]float64
}

// farthest is how far from a change a kernel's may be, over the change.
const farthest = 0.1

// Bad reports whether the case failed.
func (v value) Bad() bool {
	if v.Note != "" || !v.Again {
		return true
	}
	for i, e := range v.Moved {
		if !(e <= max(farthest, v.loose[i], v.moves[i], v.Times*v.MovedBeside[i])) {
			return true
		}
	}
	for i, e := range v.Kernel {
		limit := v.Limit
		if l, is := v.loose[i]; is {
			limit = l
		}
		if !(e <= max(limit, v.Times*v.Plain[i])) {
			return true
		}
	}
	return false
}

func (v value) String() string {
	state := "ok  "
	if v.Bad() {
		state = "BAD "
	}
	s := fmt.Sprintf("%s%-48s kernel %s  plain %s  worst %.1e, plain %.1e", state, v.Case, errorsOf(v.Kernel), errorsOf(v.Plain), v.Worst, v.Beside)
	if len(v.Moved) > 0 {
		s += fmt.Sprintf("  of changes %.1e", slices.Max(slices.Collect(maps.Values(v.Moved))))
	}
	if v.Note == "" && !v.Again {
		s += "  a second run differs"
	}
	if v.Note != "" {
		s += "  " + v.Note
	}
	return s
}

func errorsOf(l []float64) string {
	var w []string
	for _, e := range l {
		w = append(w, fmt.Sprintf("%.1e", e))
	}
	return strings.Join(w, " ")
}

// numbers runs a form of a case and downloads what it gives, as float32.
func (d *desk) numbers(c operation, what string, precision hlo.Precision, in []*session.Array, build func(fused.Ops, []*Node) []*Node, ops func(b *hlo.Builder) fused.Ops) (out [][]float32, again bool, err error) {
	p, err := d.program(what+" "+c.name, precision, c.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
		nodes := build(ops(b), in)
		for i, n := range nodes {
			nodes[i] = ConvertDType(n, dtypes.Float32)
		}
		return nodes
	})
	if err != nil {
		return nil, false, err
	}
	var runs [2][][]float32
	for k := range runs {
		arrays, err := p.Run(session.Call{Inputs: complete(p, in)})
		if err != nil {
			return nil, false, err
		}
		for _, a := range arrays {
			s, _ := a.Shape()
			l := make([]float32, s.Size())
			if err := a.Values(l); err != nil {
				return nil, false, err
			}
			runs[k] = append(runs[k], l)
		}
	}
	again = true
	for i := range runs[0] {
		for j := range runs[0][i] {
			again = again && math.Float32bits(runs[0][i][j]) == math.Float32bits(runs[1][i][j])
		}
	}
	return runs[0], again, nil
}

// compare holds the kernel, and the plain form, against the reference.
func (d *desk) compare(c operation, sum string, alone bool) value {
	v := value{Case: c.name, Sum: sum, Limit: tiling.Mark(kind(c.bf16)), Times: c.times, loose: c.loose, moves: c.moves}
	if c.limit > 0 {
		v.Limit = c.limit
	}
	compute := kind(c.bf16)
	began := time.Now()
	err := d.limited(func() error {
		in, err := c.Put(d.s)
		if err != nil {
			return err
		}
		kernel := func() ([][]float32, bool, error) {
			return d.numbers(c, "kernel", hlo.DefaultPrecision, in, c.Build, func(b *hlo.Builder) fused.Ops { return fused.Ops{Builder: b, Compute: compute} })
		}
		if alone {
			_, v.Again, err = kernel()
			return err
		}
		reference := c.reference
		if reference == nil {
			reference = c.Build
		}
		want, _, err := d.numbers(c, "reference", hlo.HighestPrecision, in, reference, func(*hlo.Builder) fused.Ops { return fused.Ops{} })
		if err != nil {
			return fmt.Errorf("reference: %w", err)
		}
		for i, l := range want {
			if !slices.Contains(c.zeros, i) && !slices.ContainsFunc(l, func(x float32) bool { return x != 0 }) {
				return fmt.Errorf("output %d of the reference is zeros only: right or wrong, it would look the same", i)
			}
		}
		plain, _, err := d.numbers(c, "plain", hlo.DefaultPrecision, in, c.Build, func(*hlo.Builder) fused.Ops { return fused.Ops{Compute: compute} })
		if err != nil {
			return fmt.Errorf("plain form: %w", err)
		}
		v.Plain, v.Beside = distances(plain, want)
		before, err := c.before(in)
		if err != nil {
			return err
		}
		v.MovedBeside = moved(before, plain, want)
		if !d.cuda {
			v.Again = true
			return nil
		}
		got, again, err := kernel()
		if err != nil {
			return err
		}
		v.Again = again
		v.Kernel, v.Worst = distances(got, want)
		v.Moved = moved(before, got, want)
		return nil
	})
	if err != nil {
		v.Note = fmt.Sprintf("after %.1f s: %v", time.Since(began).Seconds(), err)
	}
	v.OK = !v.Bad()
	return v
}

// distances are the relative errors of each output, and the worst element.
func distances(got, want [][]float32) (l []float64, worst float64) {
	for i := range want {
		var off, size, largest, far float64
		for k, w := range want[i] {
			e := float64(got[i][k]) - float64(w)
			off += e * e
			size += float64(w) * float64(w)
			largest = max(largest, math.Abs(float64(w)))
			far = max(far, math.Abs(e))
		}
		l = append(l, number(math.Sqrt(off/max(size, 1e-30))))
		worst = max(worst, number(far/max(largest, 1e-30)))
	}
	return l, worst
}

// number is an error that JSON has a word for.
func number(e float64) float64 {
	if math.IsNaN(e) || math.IsInf(e, 0) {
		return math.MaxFloat32
	}
	return e
}

// before are the numbers whose places outputs take.
func (c operation) before(in []*session.Array) (map[int][]float32, error) {
	m := map[int][]float32{}
	for to, from := range c.Chain {
		if shape := c.Inputs[from].Shape; shape.DType == dtypes.Float32 {
			m[to] = make([]float32, shape.Size())
			if err := in[from].Values(m[to]); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// moved are the errors of outputs that take an input's place, over the changes. One
// that the reference leaves as it was is not among them: its error says all.
func moved(before map[int][]float32, got, want [][]float32) map[int]float64 {
	m := map[int]float64{}
	for to, old := range before {
		var off, way float64
		for k, w := range want[to] {
			e, d := float64(got[to][k])-float64(w), float64(w)-float64(old[k])
			off, way = off+e*e, way+d*d
		}
		if way > 0 {
			m[to] = number(math.Sqrt(off / way))
		}
	}
	return m
}

// values compares the cases that are wanted, and says how many are bad.
func (d *desk) values(r *report, set settings, began time.Time) (bad int, err error) {
	known := map[record]bool{}
	if set.after != "" {
		if known, err = records(set.after); err != nil {
			return 0, err
		}
	}
	left := 0
	for _, c := range valueCases() {
		if !set.only.MatchString(c.name) {
			continue
		}
		sum := c.sum()
		if known[record{c.name, sum}] {
			continue
		}
		if time.Since(began) > set.budget {
			left++
			continue
		}
		v := d.compare(c, sum, set.alone)
		r.Values = append(r.Values, v)
		if v.Bad() {
			bad++
		}
		fmt.Println(v)
		if err := r.save(set.json); err != nil {
			return bad, err
		}
	}
	if left > 0 {
		fmt.Printf("the budget is spent, and %d cases are left\n", left)
	}
	return bad, nil
}
