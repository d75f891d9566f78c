package pjrt

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// The functions of the FFI extension, by their place in its struct.
const (
	ffiRegister = 40
	ffiTable    = 48 // bytes
)

// Register makes the C function at handler, an XLA_FFI_Handler, the target of custom calls
// of that name in programs for a platform, such as Host: those of api_version 4, in this
// process, for good. The error is ErrUnimplemented without the plugin's FFI extension.
func (p *Plugin) Register(target, platform string, handler uintptr) error {
	for _, e := range p.Extensions() {
		if e.Type != extensionFFI || e.Size < ffiTable {
			continue
		}
		var mem arena
		defer mem.free()
		a := [7]uintptr{52, mem.bytes([]byte(target)), uintptr(len(target)), handler, mem.bytes([]byte(platform)), uintptr(len(platform))}
		err, _, _ := purego.SyscallN(*at[uintptr](e.address + ffiRegister), uintptr(unsafe.Pointer(&a)))
		if e, is := p.errorOf(err, 0).(*Error); is {
			e.Op = "register " + target
			return e
		}
		return nil
	}
	return newError(ErrUnimplemented.Code, "register "+target, "this plugin takes no handlers; use a newer one")
}
