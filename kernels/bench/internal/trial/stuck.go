package trial

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// one is what these kernels take and give.
var one = shapes.Make(dtypes.Int32, 1)

// stray is a kernel that writes where nothing is.
func stray() triton.Kernel {
	return triton.Kernel{Name: "stray", Grid: [3]int{1}, Inputs: []shapes.Shape{one}, Outputs: []shapes.Shape{one}, Body: func(b *triton.Block) {
		far := b.ProgramID(0).To(dtypes.Int64).Add(1 << 42) // 16 TB away
		b.Output(0).At(0).Store(b.Input(0).At(0).Load())
		b.Output(0).At(far).Store(b.Input(0).At(0).Load())
	}}
}

// stuck runs a kernel that leaves its arrays, and compiles texts that no compiler should be
// given. Each program has to end with an error and not to hang, and the session to go on
// with what has a name.
func (d *desk) stuck() error {
	bad := []error{d.astray("stray", stray().Call)}
	for _, k := range broken() {
		bad = append(bad, d.astray(k.name, k.call))
	}
	return errors.Join(bad...)
}

// caller writes a call of a kernel into a program.
type caller func(f *hlo.Function, operands ...compute.Value) ([]compute.Value, error)

// astray compiles and runs a kernel that must not end well.
func (d *desk) astray(what string, k caller) error {
	const name = "trial/kept"
	kept := []float32{3, 1, 4, 1, 5}
	a, err := d.s.Put(kept, f32(len(kept)), 0)
	if err != nil {
		return err
	}
	if err := d.s.Bind([]string{name}, []*session.Array{a}); err != nil {
		return err
	}
	if _, err := d.s.Snapshot(""); err != nil {
		return err
	}
	zero, err := d.s.Put([]int32{0}, one, 0)
	if err != nil {
		return err
	}
	began := time.Now()
	stage := "compiled"
	err = d.guard(func() error {
		p, err := d.program(what, hlo.DefaultPrecision, []shapes.Shape{one}, func(b *hlo.Builder, in []*Node) []*Node {
			b.Divert(func(f *hlo.Function, operands []compute.Value) ([]compute.Value, error) { return k(f, operands...) })
			return OptimizationBarriers(in...)
		})
		if err != nil {
			return err
		}
		stage = "run"
		out, err := p.Run(session.Call{Inputs: []*session.Array{zero}})
		if err != nil {
			return err
		}
		return out[0].Values(make([]int32, 1))
	})
	lost := errors.Is(err, wire.Lost)
	became := "refused"
	if lost || stage == "run" {
		became = "ended"
	}
	fmt.Printf("%s: %s when it was %s, after %.1f s: %v\n", what, became, stage, time.Since(began).Seconds(), err)
	if err == nil {
		return fmt.Errorf("%s: it has ended as if nothing had been", what)
	}
	if !lost { // the device may be of no use any more
		if err := d.open(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	again, err := d.s.Array(name)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	got := make([]float32, len(kept))
	if err := again.Values(got); err != nil || !slices.Equal(got, kept) {
		return fmt.Errorf("%s: %s: got %v and %v, want %v", what, name, got, err, kept)
	}
	fmt.Printf("%.1f s later the session has %s\n", time.Since(began).Seconds(), name)
	_, err = d.s.Delete(name)
	return err
}
