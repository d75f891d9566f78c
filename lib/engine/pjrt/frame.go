//lint:file-ignore U1000 structs have all fields of C's, also those that are not set

package pjrt

import "unsafe"

// executeArgs is PJRT_LoadedExecutable_Execute_Args.
type executeArgs struct {
	head
	program, options, arguments, devices, inputs, outputs, events, device uintptr
	spare
}

// executeOptions is PJRT_ExecuteOptions.
type executeOptions struct {
	head
	send, receive, sends, receives uintptr
	launch, _                      int32
	keep, keeps                    uintptr // parameters that are not donated
	context, location              uintptr
	tasks, taskIDs, incarnations   uintptr
	multiSlice                     uintptr
	spare
}

// frame is the memory of one execution in flight between Go and C. It is made
// once for a program, and once more for each call that runs at the same time as others, and
// used again for every step.
type frame struct {
	mem     arena
	args    *executeArgs
	options *executeOptions
	in, out []Buffer // of all replicas, one after the other
	keep    []int64
	events  []uintptr // one for each replica
	event   eventArgs
	set     bufferSet
}

// newFrame makes a frame for inputs arguments of each replica.
func (p *Program) newFrame(inputs int) *frame {
	r := p.replicas
	f := &frame{}
	a := &f.mem
	f.args, f.options = make1[executeArgs](a), make1[executeOptions](a)
	f.in, f.out = makeN[Buffer](a, r*inputs), makeN[Buffer](a, r*p.outputs)
	f.keep = makeN[int64](a, inputs)
	f.events = makeN[uintptr](a, r)
	f.event = newEventArgs(a)
	// PJRT takes a list of lists. A list of no arguments still needs an address,
	// so these are taken of the block and not of its first element.
	arguments, outputs := makeN[uintptr](a, r), makeN[uintptr](a, r)
	for i := range r {
		arguments[i] = uintptr(unsafe.Pointer(unsafe.SliceData(f.in))) + uintptr(8*i*inputs)
		outputs[i] = uintptr(unsafe.Pointer(unsafe.SliceData(f.out))) + uintptr(8*i*p.outputs)
	}
	*f.options = executeOptions{head: head{unsafe.Sizeof(executeOptions{}), 0}, keep: uintptr(unsafe.Pointer(unsafe.SliceData(f.keep)))}
	*f.args = executeArgs{head: head{unsafe.Sizeof(executeArgs{}), 0}, program: p.loaded, options: address(f.options),
		arguments: address(&arguments[0]), devices: uintptr(r), inputs: uintptr(inputs), outputs: address(&outputs[0])}
	return f
}

// take gives an idle frame for that many arguments, or a new one.
func (p *Program) take(inputs int) *frame {
	p.frames.mu.Lock()
	var f *frame
	if n := len(p.frames.idle); n > 0 {
		f, p.frames.idle = p.frames.idle[n-1], p.frames.idle[:n-1]
	}
	p.frames.mu.Unlock()
	if f != nil && int(f.args.inputs) == inputs {
		return f
	}
	if f != nil { // left by a call with a wrong count, before the right one was known
		f.mem.free()
	}
	return p.newFrame(inputs)
}

// give takes a frame back.
func (p *Program) give(f *frame) {
	p.frames.mu.Lock()
	p.frames.idle = append(p.frames.idle, f)
	p.frames.mu.Unlock()
}

// bufferSet finds a buffer that comes twice, in time linear in their number.
type bufferSet struct{ table []Buffer }

// twice reports whether a buffer comes twice in l.
func (s *bufferSet) twice(l []Buffer) bool {
	size := 8
	for size < 2*len(l) {
		size *= 2
	}
	if len(s.table) != size {
		s.table = make([]Buffer, size)
	} else {
		clear(s.table)
	}
	for _, b := range l {
		i := int(uint64(b>>4)*0x9e3779b97f4a7c15>>32) & (size - 1)
		for s.table[i] != 0 {
			if s.table[i] == b {
				return true
			}
			i = (i + 1) & (size - 1)
		}
		s.table[i] = b
	}
	return false
}
