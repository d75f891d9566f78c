package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// variant is a form of an operation to be timed.
type variant struct {
	name string
	ops  func(b *hlo.Builder, compute fused.Ops) fused.Ops
	// build is the operation's own, or its reference.
	build func(o fused.Ops, in []*Node) []*Node
	// op is the case's with one of its tilings, to be compared with the plain form too;
	// nil is not one.
	op kernels.Op
}

// timed is the time of a variant.
type timed struct {
	Case    string    `json:"case"`
	Variant string    `json:"variant"`
	Micros  float64   `json:"micros"` // of one operation; the median, less Idle
	Idle    float64   `json:"idle"`   // of a repetition without the operation
	Samples []float64 `json:"samples"`
	Compile float64   `json:"compile_seconds"`
	GBs     float64   `json:"gb_per_s"` // of the bytes it moves at least
	TFLOPs  float64   `json:"tflop_per_s"`
	Kernels []share   `json:"kernels,omitempty"`
	// FromPlain is, of a tiling, how far its numbers are from those of the plain form with
	// exact products.
	FromPlain *tiling.Distance `json:"from_plain,omitempty"`
	Note      string           `json:"note,omitempty"`
	tiling    bool             // FromPlain is wanted
}

// Bad reports whether a tiling is wrong, or was not compared.
func (t timed) Bad() bool { return t.tiling && (t.FromPlain == nil || t.FromPlain.Wrong()) }

// share is what the kernels of one name take of an operation.
type share struct {
	Name    string  `json:"name"`
	Count   float64 `json:"count"`  // of one operation
	Micros  float64 `json:"micros"` // of one kernel; the mean
	Details string  `json:"details"`
}

func (t timed) String() string {
	s := ""
	if t.Bad() {
		s = "BAD "
	}
	if t.Note != "" {
		return s + fmt.Sprintf("%-44s %-28s %s", t.Case, t.Variant, t.Note)
	}
	if s += t.line(); t.FromPlain != nil {
		s += "  " + t.FromPlain.String()
	}
	return s + lines(t.Kernels)
}

// lines lists the kernels of a step or an operation.
func lines(l []share) string {
	s, total, kernels := "", 0.0, 0.0
	for _, k := range l {
		total, kernels = total+k.Count*k.Micros, kernels+k.Count
		if k.Count*k.Micros < 0.1 {
			continue
		}
		s += fmt.Sprintf("\n    %6.2f × %7.2f µs  %-36s %s", k.Count, k.Micros, k.Name, k.Details)
	}
	if len(l) > 0 {
		s += fmt.Sprintf("\n    %6.2f kernels, %.2f µs", kernels, total)
	}
	return s
}

func (t timed) line() string {
	return fmt.Sprintf("%-44s %-28s %8.2f µs  (%.2f to %.2f, of which %.2f idle)  %6.0f GB/s  %6.1f TFLOP/s  compiled in %.1f s",
		t.Case, t.Variant, t.Micros, slices.Min(t.Samples), slices.Max(t.Samples), t.Idle, t.GBs, t.TFLOPs, t.Compile)
}

// variants are the forms of a case worth timing.
func (d *desk) variants(c operation, tilings bool) []variant {
	same := func(_ *hlo.Builder, o fused.Ops) fused.Ops { return o }
	l := []variant{{"plain", same, c.Build, nil}}
	if c.reference != nil {
		l = append(l, variant{"as GoMLX derives it", same, c.reference, nil})
	}
	if !d.cuda {
		return l
	}
	if c.op == nil || !tilings {
		l = append(l, variant{"kernel", func(b *hlo.Builder, o fused.Ops) fused.Ops {
			o.Builder = b
			return o
		}, c.Build, nil})
		for _, choice := range append([]choice{{"kernel, of package triton only", fused.Usual}}, choices(c, tilings)...) {
			l = append(l, variant{choice.name, func(b *hlo.Builder, o fused.Ops) fused.Ops {
				o.Builder, o.Choose = b, choice.choose
				return o
			}, c.Build, nil})
		}
		return l
	}
	for _, t := range c.op.Tiles() {
		l = append(l, variant{t.String(), func(b *hlo.Builder, o fused.Ops) fused.Ops {
			o.Builder = b
			o.Choose = tiled(c.op, t)
			return o
		}, c.Build, c.op.With(t)})
	}
	return l
}

// tiled chooses a tiling for an op, and for others in its program, such as the updates
// behind it, the one that they have.
func tiled(own kernels.Op, t kernels.Tile) func(op kernels.Op) kernels.Op {
	return func(op kernels.Op) kernels.Op {
		if op.Key() != own.Key() {
			return op
		}
		return op.With(t)
	}
}

// choice is a tiling for the large layers of a step. How fast it is there, beside
// the others' blocks and after what has left the caches as they are, its time
// alone does not say.
type choice struct {
	name   string
	choose func(op kernels.Op) kernels.Op
}

// choices are those of the updates, and of the products.
func choices(c operation, tilings bool) (l []choice) {
	if !tilings || !strings.Contains(c.name, "step") {
		return nil
	}
	kind := dtypes.Float32
	if c.bf16 {
		kind = dtypes.BFloat16
	}
	add := func(what string, update bool, tiles []kernels.Tile) {
		for _, t := range tiles {
			l = append(l, choice{what + " " + t.String(), func(op kernels.Op) kernels.Op {
				in, out, updates := 0, 0, false
				switch p := op.(type) {
				case kernels.LinearUpdate:
					in, out, updates = p.In, p.Out, true
				case kernels.Linear:
					in, out = p.In, p.Out
				case kernels.LinearInput:
					in, out = p.In, p.Out
				}
				if in*out >= 512*512 && updates == update {
					return op.With(t)
				}
				return fused.Usual(op)
			}})
		}
	}
	add("large updates", true, (kernels.LinearUpdate{Batch: 100, In: 1000, Out: 1000, Compute: kind}).Tiles())
	products := (kernels.Linear{Batch: 100, In: 1000, Out: 1000, Compute: kind}).Tiles()
	add("large products", false, slices.DeleteFunc(products, func(t kernels.Tile) bool {
		return t.Warps > 4 || t.M+t.N < 64 || t.K*t.Split < 64 // hopeless by itself
	}))
	return l
}

// nothing is the variant without the operation: the loop and what ties its
// turns together.
var nothing = variant{"(nothing)", func(_ *hlo.Builder, o fused.Ops) fused.Ops { return o }, func(fused.Ops, []*Node) []*Node { return nil }, nil}

// time measures a variant by a loop on the device. idle is what a repetition
// takes without the operation. Tilings are compared with the plain form before.
func (d *desk) time(c operation, v variant, runs int, idle float64, kernels bool) timed {
	t := timed{Case: c.name, Variant: v.name, tiling: v.op != nil}
	err := d.guard(func() error {
		in, err := c.Put(d.s)
		if err != nil {
			return err
		}
		if v.op != nil {
			far, err := c.Compare(d.s, v.op, in)
			if err != nil {
				return fmt.Errorf("compared: %w", err)
			}
			t.FromPlain = &far
		}
		began := time.Now()
		var p *session.Program
		p, err = d.program("time "+c.name, hlo.DefaultPrecision, c.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
			f := c.Form
			f.Build = v.build
			return f.Loop(v.ops(b, fused.Ops{Compute: kind(c.bf16)}), in)
		})
		if err != nil {
			return err
		}
		t.Compile = time.Since(began).Seconds()
		in = complete(p, in)
		if t.Samples, err = c.Form.Clock(d.s, p, in, runs); err != nil {
			return err
		}
		if kernels && d.cuda {
			t.Kernels, err = d.kernels(p, in, c.Form.Times())
		}
		return err
	})
	if err != nil {
		t.Note = err.Error()
		return t
	}
	sorted := slices.Sorted(slices.Values(t.Samples))
	t.Idle = idle
	t.Micros = sorted[len(sorted)/2] - idle
	t.GBs, t.TFLOPs = c.Bytes/t.Micros/1e3, c.FLOPs/t.Micros/1e6
	return t
}

// kernels are what the profiler sees of a run of so many operations, by name, longest first.
func (d *desk) kernels(p *session.Program, in []*session.Array, operations int) ([]share, error) {
	return d.shares(float64(operations), func() error {
		_, err := p.Run(session.Call{Inputs: in})
		return err
	})
}

// shares are the kernels of each of some repetitions that f does.
func (d *desk) shares(repetitions float64, f func() error) ([]share, error) {
	r, err := profile.Record(d.s, f)
	if err != nil {
		return nil, err
	}
	all := map[string]*share{}
	for _, k := range r.Kernels {
		name := strings.TrimRight(k.Name, "0123456789") // XLA numbers the kernels of one name
		if all[name] == nil {
			all[name] = &share{Name: name, Details: k.Details}
		}
		all[name].Count += 1 / repetitions
		all[name].Micros += k.Seconds * 1e6 / repetitions
	}
	var l []share
	for _, k := range all {
		k.Micros /= k.Count
		l = append(l, *k)
	}
	slices.SortFunc(l, func(a, b share) int { return cmp.Compare(b.Count*b.Micros, a.Count*a.Micros) })
	return l, nil
}

// times measures the cases that are wanted. Its error says how many tilings are bad.
func (d *desk) times(r *report, set settings, began time.Time) error {
	bad, compared := 0, 0
	end := func() error {
		if compared > 0 {
			fmt.Printf("%d tilings compared with the plain form\n", compared)
		}
		if bad > 0 {
			return fmt.Errorf("%d of %d tilings are farther from the plain form than they may be, or failed", bad, compared)
		}
		return nil
	}
	for _, c := range timeCases() {
		if !set.only.MatchString(c.name) {
			continue
		}
		idle := 0.0
		if c.Poke >= 0 {
			idle = d.time(c, nothing, set.runs, 0, false).Micros
		}
		for _, variant := range d.variants(c, set.tilings) {
			if time.Since(began) > set.budget {
				fmt.Println("budget is spent")
				return errors.Join(r.save(set.json), end())
			}
			t := d.time(c, variant, set.runs, idle, set.kernels)
			r.Times = append(r.Times, t)
			fmt.Println(t)
			if t.tiling {
				compared++
			}
			if t.Bad() {
				bad++
			}
			if err := r.save(set.json); err != nil {
				return err
			}
		}
	}
	return end()
}
