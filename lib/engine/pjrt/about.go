package pjrt

import (
	"unsafe"
)

// What a plugin tells of a compiled program.

// NumOutputs is the number of results of one replica.
func (p *Program) NumOutputs() int { return p.outputs }

// Replicas is the number of devices that run the program together.
func (p *Program) Replicas() int { return p.options.Replicas }

// Outputs are the shapes of the results of one replica.
func (p *Program) Outputs() ([]Shape, error) {
	types, err := p.query(executableTypes, 0)
	if err != nil {
		return nil, err
	}
	dims, err := p.query(executableDims, 0)
	if err != nil {
		return nil, err
	}
	kinds, ranks := array[int32](types[0], types[1]), array[uintptr](dims[2], dims[0])
	next := dims[1]
	var l []Shape
	for i, kind := range kinds {
		s := Shape{DType: DType(kind)}
		if i < len(ranks) {
			for _, d := range array[int64](next, ranks[i]) {
				s.Dims = append(s.Dims, int(d))
			}
			next += 8 * ranks[i]
		}
		l = append(l, s)
	}
	return l, nil
}

// ProgramMemory is the memory that one run of a program needs on a device, in
// bytes. -1 stands for a figure that the plugin does not give.
type ProgramMemory struct {
	Code, Arguments, Outputs int64
	Aliased                  int64 // part of Outputs that donated arguments become
	Temporary                int64
}

// MemoryStats says how much memory a run of the program needs.
func (p *Program) MemoryStats() (ProgramMemory, error) {
	w, err := p.query(executableMemory, -1)
	if err != nil {
		return ProgramMemory{}, err
	}
	n := func(i int) int64 { return int64(w[i]) }
	return ProgramMemory{n(0), n(1), n(2), n(3), n(4)}, nil
}

// Optimized is the program after XLA's passes: a serialized HloModuleProto
// (format "hlo") or HloModuleProtoWithConfig ("hlo_with_config"). It is several
// times the size of the text.
func (p *Program) Optimized() (program []byte, format string, err error) {
	if err := p.use(executableOptimized.String()); err != nil {
		return nil, "", err
	}
	defer p.mu.RUnlock()
	var mem arena
	defer mem.free()
	code := make1[programText](&mem)
	code.size = 48
	a := struct {
		head
		executable, program uintptr
		spare
	}{executable: p.executable, program: address(code)}
	a.size = unsafe.Sizeof(a)
	// The first call gives the size, the second one fills our memory.
	if err := p.client.Plugin.call(executableOptimized, unsafe.Pointer(&a)); err != nil {
		return nil, "", err
	}
	code.code = mem.alloc(int(code.n))
	if err := p.client.Plugin.call(executableOptimized, unsafe.Pointer(&a)); err != nil {
		return nil, "", err
	}
	return append([]byte{}, array[byte](code.code, code.n)...), text(code.format, code.formatLen), nil
}
