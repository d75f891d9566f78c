package device

import (
	"bytes"
	"runtime"
	"strings"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// offerProducts makes package gemm's products known to a CPU's plugin, where the processor
// has what they need. They are measured on Intel's alone: on others XLA's may be as fast.
func (w *Worker) offerProducts(p *pjrt.Plugin) error {
	handler := gemm.Handler()
	if !w.inline || handler == 0 || !strings.Contains(sysinfo.ReadMachine().CPU, "Intel") {
		return nil
	}
	if err := p.Register(gemm.Target, gemm.Platform, handler); err != nil {
		return err
	}
	w.products = runtime.NumCPU()
	return nil
}

// lacks is why a program cannot be compiled here whose text calls package gemm: a job may
// have been begun on another machine.
func (w *Worker) lacks(text []byte) *wire.Error {
	if w.products > 0 || !bytes.Contains(text, []byte(gemm.Target)) {
		return nil
	}
	return wire.Errorf(wire.CompileError, "program has matrix products (%s) for Intel's CPUs with AVX-512, which this session does not have", gemm.Target).
		WithHint("train from a cell, as before: its programs are written for this machine, and it goes on from the weights there are")
}
