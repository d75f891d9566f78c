package session

import (
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
)

// Executable is a compiled GoMLX computation. It is compiled at its first run, when
// the inputs that it may donate are known. Each set of donated inputs needs its own
// program, in which outputs reuse the memory of these inputs.
type Executable struct {
	backend *Backend
	hlo     *hlo.Program

	mu       sync.Mutex // protects variants
	variants map[string]*Program
}

// Program returns the computation, for callers that compile it themselves with
// Session.Compile.
func (x *Executable) Program() *hlo.Program { return x.hlo }

// Finalize drops the compiled programs; the session may keep them in its cache.
func (x *Executable) Finalize() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.variants)
}

// Inputs returns the names and shapes of the parameters.
func (x *Executable) Inputs() ([]string, []shapes.Shape) { return x.hlo.InputNames, x.hlo.Inputs }

// Outputs returns the shapes of the results.
func (x *Executable) Outputs() []shapes.Shape { return x.hlo.Outputs }

// Execute starts the computation and returns its outputs at once; see
// compute.Executable. Inputs must be arrays of the same session, with the shapes of
// Inputs. Errors on the device are reported when an output is read.
func (x *Executable) Execute(inputs []compute.Buffer, donate []bool, device compute.DeviceNum) ([]compute.Buffer, error) {
	c := Call{Inputs: make([]*Array, len(inputs)), Device: int(device)}
	for i, b := range inputs {
		a, ok := b.(*Array)
		if !ok {
			e := wire.Errorf(wire.Invalid, "input %d is a %T: want an array of backend gaiden", i, b)
			e.Program = x.hlo.Name
			return nil, e
		}
		c.Inputs[i] = a
	}
	mask, dead := x.mask(c.Inputs, donate)
	p, err := x.variant(mask)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(c)
	if err != nil {
		return nil, err
	}
	for _, a := range dead {
		a.Finalize()
	}
	buffers := make([]compute.Buffer, len(out))
	for i, a := range out {
		buffers[i] = a
	}
	return buffers, nil
}

// mask is which parameters the program gives away: those that donate marks in
// every replica, except arrays that come twice. What is donated but not in the
// mask is dead after the run.
func (x *Executable) mask(in []*Array, donate []bool) (mask []bool, dead []*Array) {
	if donate == nil || len(donate) != len(in) || len(x.hlo.Inputs) == 0 {
		return nil, nil
	}
	seen := map[*Array]int{}
	for _, a := range in {
		seen[a]++
	}
	mask = make([]bool, len(x.hlo.Inputs))
	for i := range mask {
		mask[i] = true
		for j := i; j < len(in); j += len(mask) {
			mask[i] = mask[i] && donate[j] && seen[in[j]] == 1
		}
	}
	for j, a := range in {
		if donate[j] && !mask[j%len(mask)] {
			dead = append(dead, a)
		}
	}
	return mask, dead
}

// variant is the program for one set of donated parameters.
func (x *Executable) variant(mask []bool) (*Program, error) {
	key := make([]byte, len(mask))
	any := false
	for i, yes := range mask {
		if yes {
			key[i], any = 1, true
		}
	}
	if !any {
		mask, key = nil, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.variants[string(key)]; p != nil {
		return p, nil
	}
	p, err := x.backend.s.Compile(x.hlo, Options{Donate: mask})
	if err != nil {
		return nil, err
	}
	x.variants[string(key)] = p
	return p, nil
}
