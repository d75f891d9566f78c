package pjrt

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// Pool is the memory of a GPU that CUDA keeps for this process: XLA's allocator "cuda_async"
// takes arrays from there. PJRT does not tell of it, nor of what other processes have of a
// GPU, so CUDA's driver itself is asked.
type Pool struct {
	driver driver
	device uintptr // CUdevice
}

// PoolStats are a GPU's memory figures, in bytes.
type PoolStats struct {
	Total, Free int64 // the GPU's, and what of it no process has
	Held, Used  int64 // what the pool has of it, and what of that arrays and programs have
}

// driver calls a function of CUDA's driver API, and returns its CUresult: 0 is success.
type driver func(function string, args ...uintptr) uintptr

// cuda is the driver of this machine.
var cuda struct {
	once sync.Once
	call driver
	err  error
}

// openCUDA loads the driver, as XLA's plugin does.
func openCUDA() (driver, error) {
	cuda.once.Do(func() {
		library, err := load("libcuda.so.1")
		if cuda.err = err; err != nil {
			return
		}
		cuda.call = func(function string, args ...uintptr) uintptr {
			f, err := purego.Dlsym(library, function)
			if err != nil {
				return notFound
			}
			r, _, _ := purego.SyscallN(f, args...)
			return uintptr(uint32(r))
		}
		if err = openLibc(); err == nil {
			err = cuda.call.do("cuInit", 0)
		}
		cuda.err = err
	})
	return cuda.call, cuda.err
}

// Values of the driver API that are used; cuda.h has the numbers.
const (
	outOfMemory    = 2   // CUDA_ERROR_OUT_OF_MEMORY
	notFound       = 500 // CUDA_ERROR_NOT_FOUND
	poolsSupported = 115 // CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
	poolThreshold  = 4   // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
	poolHeld       = 5   // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
	poolUsed       = 7   // CU_MEMPOOL_ATTR_USED_MEM_CURRENT
	ownStream      = 2   // CU_STREAM_PER_THREAD
)

func (d driver) do(function string, args ...uintptr) error {
	if r := d(function, args...); r != 0 {
		return fmt.Errorf("pjrt: %s: CUDA's driver answered %d", function, r)
	}
	return nil
}

// GPUs is how many GPUs this process sees, 0 where there is no driver.
func GPUs() int {
	d, err := openCUDA()
	if err != nil {
		return 0
	}
	return d.gpus()
}

func (d driver) gpus() int {
	var mem arena
	defer mem.free()
	n := make1[int32](&mem)
	if d.do("cuDeviceGetCount", address(n)) != nil {
		return 0
	}
	return int(*n)
}

// PoolOf is the pool of a GPU, as CUDA counts those that this process sees, from 0. It is an
// error where CUDA cannot keep memory, as on some GPUs that virtual machines share: XLA's
// allocator would end the process there.
func PoolOf(gpu int) (*Pool, error) {
	d, err := openCUDA()
	if err != nil {
		return nil, fmt.Errorf("pjrt: CUDA's driver: %w", err)
	}
	return d.pool(gpu)
}

func (d driver) pool(gpu int) (*Pool, error) {
	var mem arena
	defer mem.free()
	device, has := make1[int32](&mem), make1[int32](&mem)
	if err := d.do("cuDeviceGet", address(device), uintptr(gpu)); err != nil {
		return nil, err
	}
	if err := d.do("cuDeviceGetAttribute", address(has), poolsSupported, uintptr(*device)); err != nil {
		return nil, err
	}
	if *has == 0 {
		return nil, fmt.Errorf("pjrt: CUDA keeps no memory on GPU %d: %w", gpu, ErrUnimplemented)
	}
	return &Pool{d, uintptr(*device)}, nil
}

// with calls do with the pool's handle. It is looked up each time: nothing says that it
// survives the last user of the GPU in this process.
func (p *Pool) with(do func(handle uintptr) error) error {
	var mem arena
	defer mem.free()
	handle := make1[uintptr](&mem)
	if err := p.driver.do("cuDeviceGetDefaultMemPool", address(handle), p.device); err != nil {
		return err
	}
	return do(*handle)
}

// Keep has the pool keep up to so many bytes that nobody uses. Without it there are none: each
// time that the GPU has been waited for, all that is unused goes back, and new memory is
// slow to come.
func (p *Pool) Keep(bytes int64) error {
	var mem arena
	defer mem.free()
	n := make1[uint64](&mem)
	*n = uint64(max(0, bytes))
	return p.with(func(handle uintptr) error {
		return p.driver.do("cuMemPoolSetAttribute", handle, poolThreshold, address(n))
	})
}

// Trim gives what nobody uses back to the GPU, for other processes.
func (p *Pool) Trim() error {
	return p.with(func(handle uintptr) error { return p.driver.do("cuMemPoolTrimTo", handle, 0) })
}

// Memory reads the figures. Where this process does not work on the GPU yet, it takes as long
// as CUDA needs to begin and end there.
func (p *Pool) Memory() (m PoolStats, err error) {
	err = p.inContext(func(mem *arena) error {
		f := makeN[uint64](mem, 4)
		err := p.with(func(handle uintptr) error {
			for i, attribute := range []uintptr{poolHeld, poolUsed} {
				if err := p.driver.do("cuMemPoolGetAttribute", handle, attribute, address(&f[i])); err != nil {
					return err
				}
			}
			return p.driver.do("cuMemGetInfo_v2", address(&f[2]), address(&f[3]))
		})
		m = PoolStats{Held: int64(f[0]), Used: int64(f[1]), Free: int64(f[2]), Total: int64(f[3])}
		return err
	})
	return m, err
}

// Fits says whether the pool has arrays of these sizes, in bytes, all at once, by taking them
// and giving them back: its memory is in pages, and no free part may be large
// enough. Where CUDA answers anything else, that is for XLA to say.
func (p *Pool) Fits(sizes []int64) (fits bool) {
	err := p.inContext(func(mem *arena) error {
		array := make1[uintptr](mem)
		var taken []uintptr
		return p.with(func(handle uintptr) (err error) {
			fits = true
			for _, size := range sizes {
				answer := p.driver("cuMemAllocFromPoolAsync", address(array), uintptr(size), handle, ownStream)
				if fits = answer != outOfMemory; answer != 0 {
					break
				}
				taken = append(taken, *array)
			}
			for _, a := range taken {
				err = errors.Join(err, p.driver.do("cuMemFreeAsync", a, ownStream))
			}
			return err
		})
	})
	return fits || err != nil
}

// inContext calls do on a thread that has the GPU's context, which XLA has too.
func (p *Pool) inContext(do func(mem *arena) error) error {
	var mem arena
	defer mem.free()
	context, old := make1[uintptr](&mem), make1[uintptr](&mem)
	if err := p.driver.do("cuDevicePrimaryCtxRetain", address(context), p.device); err != nil {
		return err
	}
	defer p.driver("cuDevicePrimaryCtxRelease_v2", p.device)
	runtime.LockOSThread() // a context is current on a thread
	defer runtime.UnlockOSThread()
	if err := p.driver.do("cuCtxPushCurrent_v2", *context); err != nil {
		return err
	}
	defer p.driver("cuCtxPopCurrent_v2", address(old))
	return do(&mem)
}

// load opens a shared library. The reason of a failure is kept for the thread that it happened on.
func load(path string) (library uintptr, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}
