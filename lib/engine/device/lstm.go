package device

import (
	"bytes"
	"runtime"

	"gaiden/lib/engine/lstm"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// measured says whether package lstm was found to be faster than XLA's loop on a processor:
// Intel's with vectors of 512 bits, or AMD's with 256 at most.
func measured(vendor string, handlers []lstm.Handler) bool {
	return len(handlers) > 0 && vendor == map[int]string{512: "GenuineIntel", 256: "AuthenticAMD"}[handlers[0].Bits]
}

// offerLSTM makes the calls of package lstm known to a CPU's plugin, where the processor has
// what they need.
func (w *Worker) offerLSTM(p *pjrt.Plugin) error {
	handlers := lstm.Handlers()
	if !w.inline || !measured(sysinfo.ReadMachine().Vendor, handlers) {
		return nil
	}
	if err := p.Register(lstm.Target, lstm.Platform, handlers[0].Entry); err != nil {
		return err
	}
	w.lstmThreads = runtime.NumCPU()
	return nil
}

// lacks is why a program cannot be compiled here whose text has such a call: a job may have
// been started on another machine.
func (w *Worker) lacks(text []byte) *wire.Error {
	if w.lstmThreads > 0 || !bytes.Contains(text, []byte(lstm.Target)) {
		return nil
	}
	return wire.Errorf(wire.CompileError, "program has calls (%s) for Intel's CPUs with AVX-512 and AMD's with AVX2 alone, which this session does not have", lstm.Target).
		WithHint("train from a cell, as before: its programs are written for this machine, and it continues from the current weights")
}
