package device

import (
	"bytes"
	"runtime"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/engine/lstm"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// measured says whether package gemm was found to be faster than XLA's matmuls on a
// processor: Intel's with vectors of 512 bits, or AMD's with 256 at most.
func measured(vendor string, handlers []gemm.Handler) bool {
	return len(handlers) > 0 && vendor == map[int]string{512: "GenuineIntel", 256: "AuthenticAMD"}[handlers[0].Bits]
}

// offerProducts makes the calls of packages gemm and lstm known to a CPU's plugin, where the
// processor has what they need.
func (w *Worker) offerProducts(p *pjrt.Plugin) error {
	products, places := gemm.Handlers(), lstm.Handlers()
	if !w.inline || !measured(sysinfo.ReadMachine().Vendor, products) {
		return nil
	}
	if err := p.Register(gemm.Target, gemm.Platform, products[0].Entry); err != nil {
		return err
	}
	if err := p.Register(lstm.Target, gemm.Platform, places[0].Entry); err != nil {
		return err
	}
	w.products = runtime.NumCPU()
	return nil
}

// lacks is why a program cannot be compiled here whose text has such a call: a job may have
// been started on another machine.
func (w *Worker) lacks(text []byte) *wire.Error {
	for _, call := range []string{gemm.Target, lstm.Target} {
		if w.products == 0 && bytes.Contains(text, []byte(call)) {
			return wire.Errorf(wire.CompileError, "program has calls (%s) for Intel's CPUs with AVX-512 and AMD's with AVX2 alone, which this session does not have", call).
				WithHint("train from a cell, as before: its programs are written for this machine, and it continues from the current weights")
		}
	}
	return nil
}
