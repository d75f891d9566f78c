package pjrt

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The rule of this package: structs that cross hold addresses as uintptr. What
// they refer to is C memory, or Go memory that a runtime.Pinner holds for as
// long as the plugin may look at it.

// head starts every argument struct of the C API.
type head struct{ size, extension uintptr }

// spare ends the argument structs. Plugins refuse a struct shorter than their
// own version of it and take a longer one whose rest is zero, so that plugins
// newer than this package are served too.
type spare [4]uintptr

// handleArgs is the argument of the many functions that take one handle. It has
// not grown in 115 versions and is needed once for every donated buffer.
type handleArgs struct {
	head
	handle uintptr
}

func newHandleArgs(h uintptr) handleArgs { return handleArgs{head{24, 0}, h} }

// pointer converts the address of C memory.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// at reads the C memory at an address as a T.
func at[T any](address uintptr) *T { return (*T)(pointer(address)) }

// array is n values in C memory.
func array[T any](address, n uintptr) []T {
	if address == 0 || n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(pointer(address)), n)
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// text copies a C string of known length.
func text(address, n uintptr) string {
	if address == 0 || n == 0 {
		return ""
	}
	return strings.Clone(unsafe.String((*byte)(pointer(address)), int(n)))
}

// libc is the C allocator: two functions that are in every process, and one that is in
// glibc only.
var libc struct {
	once               sync.Once
	calloc, free, trim uintptr
	err                error
}

func openLibc() error {
	libc.once.Do(func() {
		var err1, err2 error
		libc.calloc, err1 = purego.Dlsym(purego.RTLD_DEFAULT, "calloc")
		libc.free, err2 = purego.Dlsym(purego.RTLD_DEFAULT, "free")
		if err1 != nil || err2 != nil {
			libc.err = fmt.Errorf("the C library has no calloc or free (%w); gaiden needs glibc", err1)
		}
		libc.trim, _ = purego.Dlsym(purego.RTLD_DEFAULT, "malloc_trim")
	})
	return libc.err
}

// Trim gives the C allocator's free memory back to the system, where the
// allocator can do that: on a CPU that is where arrays were.
func Trim() {
	if openLibc() == nil && libc.trim != 0 {
		purego.SyscallN(libc.trim, 0)
	}
}

// arena owns blocks of C memory that are freed together. The zero arena is
// ready to use.
type arena struct{ blocks []uintptr }

// alloc returns n zeroed bytes. Like Go's own allocator it gives up the process
// when there is no memory: its blocks are a few kilobytes.
func (a *arena) alloc(n int) uintptr {
	p, _, _ := purego.SyscallN(libc.calloc, 1, uintptr(n)+8)
	if p == 0 {
		panic("pjrt: out of memory: calloc of a few kilobytes failed")
	}
	a.blocks = append(a.blocks, p)
	return p
}

// bytes copies b.
func (a *arena) bytes(b []byte) uintptr {
	p := a.alloc(len(b))
	copy(array[byte](p, uintptr(len(b))), b)
	return p
}

func (a *arena) free() {
	for _, p := range a.blocks {
		purego.SyscallN(libc.free, p)
	}
	a.blocks = nil
}

// make1 puts a zero T into the arena, makeN n of them.
func make1[T any](a *arena) *T {
	var z T
	return at[T](a.alloc(int(unsafe.Sizeof(z))))
}

func makeN[T any](a *arena, n int) []T {
	var z T
	return unsafe.Slice(at[T](a.alloc(n*int(unsafe.Sizeof(z)))), n)
}
