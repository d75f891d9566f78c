package device

import "gaiden/lib/engine/wire"

// pulse says how much other clients than one have sent so far, requests about the
// session left out, and whether somebody waits for a device, or for a program that will
// run there: one of them, or a job.
// Where the first does not change and the second is false, the devices are left alone.
func (w *Worker) pulse(than *conn) *wire.AnswerBody {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &wire.AnswerBody{Count: w.left}
	for c := range w.conns {
		if c == than {
			continue
		}
		c.mu.Lock()
		a.Count += c.work
		a.Busy = a.Busy || c.behind
		c.mu.Unlock()
		a.Busy = a.Busy || c.inflight > 0 || c.launching != nil || c.making.Load() > 0
	}
	for _, s := range w.spaces {
		for _, j := range s.jobs {
			a.Busy = a.Busy || j.state == wire.JobRuns
		}
	}
	return a
}
