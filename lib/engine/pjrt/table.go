package pjrt

import "fmt"

// slot is the place of a function in the table PJRT_Api, counted after its head
// of 40 bytes. Offsets never change within major version 0; new functions are
// added at the end.
type slot int

const (
	errorDestroy         slot = 0
	errorMessage         slot = 1
	errorGetCode         slot = 2
	pluginInitialize     slot = 3
	eventDestroy         slot = 5
	eventAwait           slot = 8
	eventOnReady         slot = 9
	clientCreate         slot = 10
	clientDestroy        slot = 11
	clientPlatform       slot = 12
	clientVersion        slot = 14
	clientAllDevices     slot = 15
	clientDevices        slot = 16 // the addressable ones
	clientCompile        slot = 20
	bufferFromHost       slot = 22
	descriptionID        slot = 23
	descriptionProcess   slot = 24
	descriptionAttribute slot = 25
	descriptionKind      slot = 26
	descriptionDebug     slot = 27
	deviceDescription    slot = 29
	deviceMemoryStats    slot = 34
	executableDestroy    slot = 40
	executableNumOutputs slot = 44
	executableOptimized  slot = 48
	executableSerialize  slot = 49
	loadedDestroy        slot = 50
	loadedExecutable     slot = 51
	loadedExecute        slot = 55
	deserializeAndLoad   slot = 56
	bufferDestroy        slot = 58
	bufferCopyToDevice   slot = 69
	bufferToHost         slot = 70
	bufferReadyEvent     slot = 72
	executableTypes      slot = 90
	executableDims       slot = 91
	executableMemory     slot = 96

	slots = 160 // room for more than any plugin has today
)

const (
	tableHead = 40 // struct_size, extension_start and the version struct
	minMinor  = 54 // oldest plugin whose table reaches executableMemory
)

// slotNames says what a failed function was to do, in the words of this
// package.
var slotNames = map[slot]string{
	errorDestroy: "free error", errorMessage: "error message", errorGetCode: "error code", eventDestroy: "free event",
	executableDestroy: "free executable", executableNumOutputs: "number of outputs", loadedDestroy: "close program",
	loadedExecutable: "executable of a program",
	pluginInitialize: "initialize plugin", eventAwait: "wait", eventOnReady: "notify",
	clientCreate: "new client", clientDestroy: "close client", clientPlatform: "platform", clientVersion: "platform version",
	clientDevices: "devices", clientAllDevices: "devices of all nodes", descriptionProcess: "node of a device", clientCompile: "compile", bufferFromHost: "upload", descriptionAttribute: "device attributes",
	deviceMemoryStats: "device memory", executableOptimized: "optimized program",
	executableSerialize: "serialize", loadedExecute: "execute", deserializeAndLoad: "deserialize", bufferDestroy: "free",
	bufferCopyToDevice: "copy to device", bufferToHost: "download", bufferReadyEvent: "ready",
	executableTypes: "output types", executableDims: "output dimensions",
	executableMemory: "program memory",
}

func (s slot) String() string {
	if n := slotNames[s]; n != "" {
		return n
	}
	return fmt.Sprintf("function %d", int(s))
}

// required are the functions without which nothing works, and those that are
// called without a check of their own.
var required = []slot{errorDestroy, errorMessage, errorGetCode, pluginInitialize, eventDestroy, eventAwait, eventOnReady, clientCreate,
	clientDestroy, clientDevices, clientCompile, bufferFromHost, executableDestroy, executableNumOutputs, loadedDestroy,
	loadedExecutable, loadedExecute, bufferDestroy, bufferToHost}

// checkTable refuses a table PJRT_Api at address api that this package cannot
// use, and returns its version and size otherwise.
func checkTable(api uintptr) (major, minor int, size uintptr, err error) {
	if api == 0 {
		return 0, 0, 0, fmt.Errorf("GetPjrtApi returned no table; the plugin file is damaged: install it again")
	}
	size = *at[uintptr](api)
	if size < tableHead || size > 1<<16 {
		return 0, 0, size, fmt.Errorf("table of %d bytes is not a PJRT table; check that GAIDEN_PLUGIN names a PJRT plugin", size)
	}
	major, minor = int(*at[int32](api + 32)), int(*at[int32](api + 36))
	switch {
	case major != 0:
		err = fmt.Errorf("got PJRT C API %d.%d, want major version 0; use an older plugin or a newer gaiden", major, minor)
	case minor < minMinor || size < tableHead+8*uintptr(executableMemory+1):
		err = fmt.Errorf("got PJRT C API %d.%d (table of %d bytes), want at least 0.%d; use a newer plugin", major, minor, size, minMinor)
	default:
		for _, s := range required {
			if *at[uintptr](api + tableHead + 8*uintptr(s)) == 0 {
				return major, minor, size, fmt.Errorf("PJRT C API %d.%d without the function for %q; use another plugin", major, minor, s)
			}
		}
	}
	return major, minor, size, err
}
