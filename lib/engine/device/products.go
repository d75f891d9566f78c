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

// makers are those of the processors on which package gemm is measured, by the bits of their
// widest vectors: on others XLA's products may be as fast.
var makers = map[int]string{512: "Intel", 256: "AMD"}

// offerProducts makes package gemm's products known to a CPU's plugin, where the processor
// has what they need.
func (w *Worker) offerProducts(p *pjrt.Plugin) error {
	handlers := gemm.Handlers()
	if !w.inline || len(handlers) == 0 || !strings.Contains(sysinfo.ReadMachine().CPU, makers[handlers[0].Bits]) {
		return nil
	}
	if err := p.Register(gemm.Target, gemm.Platform, handlers[0].Entry); err != nil {
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
	return wire.Errorf(wire.CompileError, "program has matrix products (%s) for Intel's CPUs with AVX-512 and AMD's with AVX2 alone, which this session does not have", gemm.Target).
		WithHint("train from a cell, as before: its programs are written for this machine, and it goes on from the weights there are")
}
