package device

import (
	"testing"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// TestDeviceError tells a full device from one that is too small for a kernel, with
// XLA's words.
func TestDeviceError(t *testing.T) {
	for _, tt := range []struct {
		err  pjrt.Error
		want wire.Code
	}{
		{pjrt.Error{Code: 8, Name: "RESOURCE_EXHAUSTED", Op: "execute", Message: "Out of memory while trying to allocate 2306867200 bytes."}, wire.OutOfMemory},
		{pjrt.Error{Code: 8, Name: "RESOURCE_EXHAUSTED", Op: "compile", Message: "Shared memory size limit exceeded: requested 139264, available: 101376"}, wire.CompileError},
		{pjrt.Error{Code: 12, Name: "UNIMPLEMENTED", Op: "compile", Message: "no such op"}, wire.Unsupported},
		{pjrt.Error{Code: 13, Name: "INTERNAL", Op: "compile", Message: "ptxas failed"}, wire.CompileError},
	} {
		if got := new(Worker).deviceError(wire.CompileError, "f", &tt.err); got.Code != tt.want || got.Text != tt.err.Error() || got.Program != "f" {
			t.Errorf("%v: got %s: %s, want %s", &tt.err, got.Code, got.Text, tt.want)
		}
	}
}
