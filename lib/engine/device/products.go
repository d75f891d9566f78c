package device

import (
	"runtime"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/engine/pjrt"
)

// offerProducts makes package gemm's products known to a CPU's plugin, where the
// processor has what they need.
func (w *Worker) offerProducts(p *pjrt.Plugin) error {
	handler := gemm.Handler()
	if !w.inline || handler == 0 {
		return nil
	}
	if err := p.Register(gemm.Target, gemm.Platform, handler); err != nil {
		return err
	}
	w.products = runtime.NumCPU()
	return nil
}
