package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// stateSize is the number of float32 in each array of the dispatch benchmark:
// small, because the work must not hide the dispatch.
const stateSize = 16

// stepper runs steps of n donated arrays; await waits for the device.
type stepper struct {
	subject string
	step    func() error
	await   func() error
	close   func() error
}

// asWorker begins this program once more with a worker's allocator, if it has not
// got it: raw PJRT is measured as the worker calls it.
func asWorker() error {
	plugin, err := device.Find()
	if err != nil {
		return err
	}
	more := device.Allocator(plugin)
	if len(more) == 0 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), more...))
}

func benchDispatch(b *bench) error {
	if err := asWorker(); err != nil {
		return err
	}
	s, err := session.Config{Client: client}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	plugin, err := device.Find()
	if err != nil {
		return err
	}
	lib, err := pjrt.Load(plugin.Path)
	if err != nil {
		return err
	}
	client, err := lib.NewClient(plugin.Options)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, n := range []int{1, 31, 100} {
		if !b.wants(fmt.Sprintf("n%d-pipelined", n)) && !b.wants(fmt.Sprintf("n%d-awaited", n)) {
			continue
		}
		var all []*stepper
		for _, make := range []func() (*stepper, error){
			func() (*stepper, error) { return rawSteps(s, client, n) },
			func() (*stepper, error) { return socketSteps(s, n) },
			func() (*stepper, error) { return graphSteps(s, n) },
		} {
			st, err := make()
			if err != nil {
				return err
			}
			all = append(all, st)
		}
		for _, mode := range []string{"pipelined", "awaited"} {
			name := fmt.Sprintf("n%d-%s", n, mode)
			if !b.wants(name) {
				continue
			}
			if err := b.dispatch(name, mode == "awaited", all); err != nil {
				return err
			}
		}
		for _, st := range all {
			if err := st.close(); err != nil {
				return err
			}
		}
	}
	return b.peer("dispatch_jax.py")
}

// dispatch measures all steppers alternately.
func (b *bench) dispatch(name string, await bool, all []*stepper) error {
	var failed error // the first: all that follow it fail, too
	keep := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	var cases []timing.Case
	for _, st := range all {
		cases = append(cases, timing.Case{Name: st.subject, Loop: func(n int) {
			for range n {
				if err := st.step(); err != nil {
					keep(err)
					return
				}
				if await {
					keep(st.await())
				}
			}
		}})
	}
	t := timing.Timer{Budget: time.Second, Sync: func() {
		for _, st := range all {
			keep(st.await())
		}
	}}
	measured := t.Times(context.Background(), cases...)
	if failed != nil {
		return failed // what was measured is how fast nothing is done
	}
	for i, m := range measured {
		if err := b.add(name, all[i].subject, m); err != nil {
			return err
		}
	}
	return nil
}

// addProgram is the program of the benchmark: each array plus 1.
func addProgram(s *session.Session, n int) (*hlo.Program, []bool, error) {
	g := NewGraph(s.Backend(), fmt.Sprintf("dispatch%d", n))
	var out []*Node
	donate := make([]bool, n)
	for i := range n {
		out = append(out, AddScalar(Parameter(g, fmt.Sprint("x", i), stateShape()), 1))
		donate[i] = true
	}
	if err := g.Compile(out...); err != nil {
		return nil, nil, err
	}
	return g.Executable().(*session.Executable).Program(), donate, nil
}

func stateShape() shapes.Shape { return shapes.Make(dtypes.Float32, stateSize) }

// counted refuses a state that has not taken every step.
func counted(subject string, v float32, steps int) error {
	if steps < 1<<24 && v != float32(steps) && !math.IsInf(float64(v), 0) {
		return fmt.Errorf("%s: state is %v after %d steps", subject, v, steps)
	}
	return nil
}

// rawSteps calls PJRT in this process.
func rawSteps(s *session.Session, c *pjrt.Client, n int) (*stepper, error) {
	h, donate, err := addProgram(s, n)
	if err != nil {
		return nil, err
	}
	p, err := c.Compile(h.Text(donate), pjrt.CompileOptions{})
	if err != nil {
		return nil, err
	}
	state := make([]pjrt.Buffer, n)
	for i := range state {
		if state[i], err = c.Upload(make([]byte, 4*stateSize), pjrt.DType(dtypes.Float32), []int{stateSize}, nil); err != nil {
			return nil, err
		}
	}
	steps := 0
	v := make([]byte, 4*stateSize)
	return &stepper{subject: "raw PJRT",
		step: func() error {
			steps++
			return p.Execute(state, state, donate, nil, pjrt.Async, nil)
		},
		await: func() error { return c.Wait(state[n-1]) },
		close: func() error {
			if err := c.Download(state[n-1], v); err != nil {
				return err
			}
			for _, x := range state {
				c.Free(x)
			}
			bits := uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24
			return errors.Join(counted("raw PJRT", math.Float32frombits(bits), steps), p.Close())
		}}, nil
}

// socketSteps goes through the session's socket.
func socketSteps(s *session.Session, n int) (*stepper, error) {
	h, donate, err := addProgram(s, n)
	if err != nil {
		return nil, err
	}
	p, err := s.Compile(h, session.Options{Donate: donate})
	if err != nil {
		return nil, err
	}
	state := make([]*session.Array, n)
	for i := range state {
		if state[i], err = s.Put(make([]float32, stateSize), stateShape(), 0); err != nil {
			return nil, err
		}
	}
	steps := 0
	return &stepper{subject: "gaiden",
		step: func() (err error) {
			steps++
			state, err = p.Run(session.Call{Inputs: state})
			return err
		},
		await: s.Wait,
		close: func() error {
			v := make([]float32, stateSize)
			if err := state[n-1].Values(v); err != nil {
				return err
			}
			return counted("gaiden", v[0], steps)
		}}, nil
}

// graphSteps is GoMLX's Exec on the backend gaiden.
func graphSteps(s *session.Session, n int) (*stepper, error) {
	exec, err := NewExec(s.Backend(), func(in []*Node) []*Node {
		out := make([]*Node, len(in))
		for i, x := range in {
			out[i] = AddScalar(x, 1)
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	state := make([]*tensors.Tensor, n)
	for i := range state {
		state[i] = tensors.FromShape(stateShape())
		if err := state[i].MaterializeOnDevice(s.Backend(), false, 0); err != nil {
			return nil, err
		}
	}
	steps := 0
	args := make([]any, n)
	return &stepper{subject: "gaiden, GoMLX Exec",
		step: func() error {
			steps++
			for i, x := range state {
				d, err := DonateTensorBuffer(x, s.Backend(), 0)
				if err != nil {
					return err
				}
				args[i] = d
			}
			out, err := exec.Call(args...)
			state = out
			return err
		},
		await: s.Wait,
		close: func() error {
			return counted("GoMLX Exec", tensors.MustCopyFlatData[float32](state[n-1])[0], steps)
		}}, nil
}
