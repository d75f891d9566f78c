package lower

import (
	"fmt"
	"strconv"
	"strings"

	"gaiden/lib/engine/wire"
)

// Target is what programs are written for. The zero value is a plain CPU: everything
// runs on XLA's operations there, and on every platform that is not named here.
type Target struct {
	// Platform is PJRT's name for it in lower case: cpu, cuda, rocm, tpu.
	Platform string
	// Capability is the compute capability of CUDA devices, such as 9.0.
	Capability string
	// Kind is the name of the device, such as NVIDIA H200.
	Kind string
	// Devices is how many the session has.
	Devices int
	// Memory is what arrays on one device can take in bytes; 0: not known.
	Memory int64
	// Triton says whether the plugin compiles kernels in Triton's dialect.
	Triton bool
	// CuDNN says whether the plugin compiles graphs of cuDNN, such as attention, which needs
	// compute capability 8.0.
	CuDNN bool
}

// TargetOf is the target of a session, from its welcome. Devices of one session are
// alike.
func TargetOf(w wire.WelcomeBody) Target {
	t := Target{Platform: strings.ToLower(w.Platform), Devices: len(w.Devices)}
	if len(w.Devices) > 0 {
		d := w.Devices[0]
		t.Kind, t.Capability, t.Memory = d.Kind, d.Capability, d.Memory
	}
	t.Triton = t.Platform == "cuda" // XLA compiles Triton's dialect for ROCm, too, but no kernel was ever tried there
	t.CuDNN = t.Triton && ampere(t.Capability)
	return t
}

// ampere says whether a compute capability is 8.0 or newer; one that is not known is.
func ampere(capability string) bool {
	major, _, _ := strings.Cut(capability, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 8
}

// CPU says whether programs run on the host's processors.
func (t Target) CPU() bool { return t.Platform == "cpu" || t.Platform == "" }

// Hopper says whether the device has compute capability 9.0.
func (t Target) Hopper() bool { return t.Platform == "cuda" && t.Capability == "9.0" }

func (t Target) String() string {
	s := strings.ToUpper(t.Platform)
	if t.CPU() {
		s = "CPU"
	}
	if t.Kind != "" && !t.CPU() {
		s += " " + t.Kind
	}
	if t.Capability != "" {
		s += ", compute capability " + t.Capability
	}
	if t.Devices > 1 {
		s += fmt.Sprintf(", %d devices", t.Devices)
	}
	return s
}

// Graphs says whether XLA runs a program's kernels as graphs there: CUDA's, and ROCm's.
func (t Target) Graphs() bool { return t.Platform == "cuda" || t.Platform == "rocm" }
