package hlo

import (
	"errors"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
)

// Backend is a GoMLX backend that writes programs and runs none. The zero Backend is ready to use.
type Backend struct {
	notimplemented.Backend
	Precision Precision // of matrix multiplications in float32
	// HLO is the builder of the last graph, and Program what it wrote: nil before Compile.
	HLO     *Builder
	Program *Program
}

func (b *Backend) Name() string                       { return "gaiden" }
func (b *Backend) String() string                     { return b.Name() }
func (b *Backend) Description() string                { return b.Name() }
func (b *Backend) Capabilities() compute.Capabilities { return Capabilities() }

// Builder begins a program. Its executable knows inputs and outputs; Execute is an error.
func (b *Backend) Builder(name string) compute.Builder {
	b.HLO, b.Program = NewBuilder(nil, name, func(p *Program) (compute.Executable, error) {
		b.Program = p
		return written{p}, nil
	}), nil
	b.HLO.Precision = b.Precision
	return b.HLO
}

// written is the executable of a program that only the session can run.
type written struct{ p *Program }

func (written) Finalize()                            {}
func (w written) Inputs() ([]string, []shapes.Shape) { return w.p.InputNames, w.p.Inputs }
func (w written) Outputs() []shapes.Shape            { return w.p.Outputs }
func (written) Execute([]compute.Buffer, []bool, compute.DeviceNum) ([]compute.Buffer, error) {
	return nil, errors.New("hlo: this backend only writes programs; the session runs them")
}
