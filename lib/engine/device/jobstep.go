package device

import (
	"fmt"
	"math"
	"time"

	"gaiden/lib/engine/wire"
)

// step runs one repetition of one step, and moves on. A snapshot sees what was
// before it or what was after it.
func (j *runner) step() *wire.Error {
	return j.do(j.place, func() {
		j.place, j.changed = nextPlace(j.place, j.body), time.Now()
		j.space.touch(j.changed)
	})
}

// do runs one repetition of one step, and calls done for the same snapshot.
func (j *runner) do(at wire.Place, done func()) *wire.Error {
	w, s := j.w, j.space
	w.mu.Lock()
	for s.freezes > 0 {
		w.unpinned.Wait()
	}
	s.working++
	w.mu.Unlock()
	entries, why := j.one(at)
	if err := j.log.append(entries); err != nil { // a full disk does not stop the job
		w.trouble(s, fmt.Errorf("log of job %s: %w", j.body.Name, err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.working--
	w.unpinned.Broadcast()
	if why != nil {
		return why
	}
	done()
	return nil
}

// one does the work of a step and returns what it is to report, which numbers that
// end the job are a part of. The device has finished then: others want it too.
func (j *runner) one(at wire.Place) ([]wire.JobEntry, *wire.Error) {
	w, c := j.w, j.conn
	s := &j.body.Steps[at.Step]
	e, in, bind := j.execution(s, at)
	defer c.free(append(in.Handles, e.Outputs...))
	w.mu.Lock()
	for w.inCall(j.space) { // another client trains these arrays too
		w.unpinned.Wait()
	}
	_, why := c.lookupAll(in)
	w.mu.Unlock()
	if why != nil {
		return nil, why
	}
	if err := c.execute(e, math.MaxInt64); err != nil {
		return nil, asError(err)
	}
	entries, why := j.read(s, e, at)
	c.idle()
	if errs := c.untold(); len(errs) > 0 {
		return nil, errs[0] // the device's own word comes first
	}
	if why == nil && s.Finite {
		w.mu.Lock()
		_, why = c.bindAll(bind)
		w.mu.Unlock()
		if why != nil {
			return nil, why
		}
	}
	return entries, why
}

// execution is the frame of a step, with the names of its inputs and outputs.
func (j *runner) execution(s *wire.JobStep, at wire.Place) (e *wire.ExecuteBody, in, bind wire.AskBody) {
	in.Space, bind.Space = j.space.name, j.space.name
	for i, x := range s.Inputs {
		n := x.Name
		if n == "" {
			n = x.Each[at.Repeat%len(x.Each)]
		}
		in.Names, in.Handles = append(in.Names, n), append(in.Handles, uint64(i+1))
	}
	e = &wire.ExecuteBody{Program: jobPrograms + uint64(s.Program), Device: uint32(s.Device), Inputs: in.Handles, Donate: s.Donate}
	if e.Donate == nil {
		e.Donate = make([]bool, len(in.Handles))
	}
	p := j.used[s.Program]
	for i := range len(p.outputs) * p.replicas {
		h := uint64(len(in.Handles) + i + 1)
		e.Outputs = append(e.Outputs, h)
		if i < len(s.Names) && s.Names[i] != "" {
			e.Bind = append(e.Bind, wire.Binding{Output: uint32(i), Name: s.Names[i]})
			bind.Names, bind.Handles = append(bind.Names, s.Names[i]), append(bind.Handles, h)
		}
	}
	if s.Finite {
		e.Bind = nil
	}
	return e, in, bind
}

// read takes what a step is to report.
func (j *runner) read(s *wire.JobStep, e *wire.ExecuteBody, at wire.Place) ([]wire.JobEntry, *wire.Error) {
	w, c := j.w, j.conn
	var entries []wire.JobEntry
	for _, r := range s.Read {
		a, why := c.use(e.Outputs[r.Output])
		if why != nil {
			return nil, why
		}
		b := make([]byte, max(1, a.bytes))
		err := w.client.Download(a.buf, b[:a.bytes])
		w.mu.Lock()
		w.unpin(a)
		w.mu.Unlock()
		if err != nil {
			return nil, w.deviceError(wire.ExecuteError, j.used[s.Program].name, err)
		}
		entry := wire.JobEntry{Place: at, Name: r.Name, Values: numbers(a.typ, b[:a.bytes]), Time: time.Now()}
		entries = append(entries, entry)
		for k, v := range entry.Values {
			if s.Finite && (math.IsNaN(v) || math.IsInf(v, 0)) {
				j.nonFinite = true
				return entries, wire.Errorf(wire.ExecuteError, "job %s: %s is %v (value %d, turn %d, step %d, repetition %d)", wire.Shown(j.body.Name), r.Name, v, k, at.Turn, at.Step, at.Repeat).
					WithHint("the arrays are those from before this step")
			}
		}
	}
	return entries, nil
}
