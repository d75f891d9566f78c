package device

import (
	"runtime"
	"strings"

	"gaiden/lib/engine/gemm"
	"gaiden/lib/engine/pjrt"
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
