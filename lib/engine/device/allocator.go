package device

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/sysinfo"
)

// AllocatorEnv makes glibc's allocator fit for XLA, whose memory comes from it on
// the CPU. XLA frees a few dozen small blocks of the same sizes after each step: the
// usual cache of 7 a size is too small for them. One of 1,000 is too large: XLA requests
// aligned blocks, and what is cut off their ends stays in the cache, between blocks
// that cannot be joined then, so that memory grows. For the same reason there are no
// fast bins, which are also searched at each large free. Large arrays have huge pages,
// which are faster to get.
//
// Freed memory stays with the process, as the next step requests it again, and
// Linux clears each page that it gives: see rest. No block is one of the system's as long
// as there is room for it in a heap. Threads but the first have heaps of 64 MB: an empty one
// is released, unless the one before it has less than top_pad left, which here it always
// has. With one heap for all, threads would wait for one another. For what has no room in a
// thread's heap see keepLarge.
const AllocatorEnv = "GLIBC_TUNABLES=glibc.malloc.tcache_count=100:glibc.malloc.mxfast=0:glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=68157440"

// Allocator is what a process with the devices of a plugin needs in its
// environment before it starts: AllocatorEnv on a CPU, nothing elsewhere and where
// the user has set the allocator.
func Allocator(p Plugin) []string {
	if p.Device != "cpu" {
		return nil
	}
	if name, _, _ := strings.Cut(AllocatorEnv, "="); os.Getenv(name) != "" {
		return nil
	}
	return []string{AllocatorEnv}
}

// WithoutAllocator is an environment less what Allocator adds.
func WithoutAllocator(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return v == AllocatorEnv })
}

// tuned says whether this process was started with AllocatorEnv.
func tuned() bool {
	name, value, _ := strings.Cut(AllocatorEnv, "=")
	return os.Getenv(name) == value
}

// heapSize is how large the heaps are that glibc's allocator has for threads but the first.
const heapSize = 64 << 20

// keepLarge has what is larger than such a heap, arrays and the memory that a program works
// in, come from the first thread's heap, which grows without a limit and keeps freed memory.
// The allocator uses that only if the system refuses, and would else request new pages each
// time, which Linux clears. So the system is told to refuse, by a filter of system calls
// (seccomp) for the process: private memory of more than 63 MB, to be read and written at once.
// Go reserves its own first, and files and shared memory are different calls. Nothing else is
// filtered, and the process can have no more rights than it has now. For x86-64 only.
func keepLarge() error {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	// Where the words of a call are, by struct seccomp_data.
	const number, arch, args = 0, 4, 16
	const auditX86 = 0xc000003e // AUDIT_ARCH_X86_64
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{ // numbers are how many lines are skipped
		load(arch), jump(unix.BPF_JEQ, auditX86, 0, 11),
		load(number), jump(unix.BPF_JEQ, unix.SYS_MMAP, 0, 9),
		load(args + 2*8), jump(unix.BPF_JEQ, unix.PROT_READ|unix.PROT_WRITE, 0, 7),
		load(args + 3*8), jump(unix.BPF_JEQ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, 0, 5),
		load(args + 8 + 4), jump(unix.BPF_JEQ, 0, 0, 2), // the length's upper half
		load(args + 8), jump(unix.BPF_JGT, heapSize-1<<20, 0, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOMEM)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	runtime.LockOSThread() // the filter asks for what is set here
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("device: no new rights: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 || thread != 0 {
		return fmt.Errorf("device: a filter of system calls: %w (thread %d)", errno, thread)
	}
	return nil
}

// untidy is how long after arrays were deleted their memory is the system's again: those
// who delete some may continue at once with others of the same sizes.
const untidy = time.Second

// tidy gives memory back on a CPU, where the allocator keeps it: see AllocatorEnv. It is
// called when a deleted array is freed. The caller holds w.mu.
func (w *Worker) tidy() {
	if w.tidying || w.Plugin.Device != "cpu" {
		return
	}
	w.tidying = true
	time.AfterFunc(untidy, func() {
		w.mu.Lock()
		w.tidying = false
		w.mu.Unlock()
		pjrt.Trim()
	})
}

// idle is how long nobody asks a session for anything until it releases the memory that programs
// have worked in. A user who reads a result and continues finds it as it was: new pages are
// slow, above all on a virtual machine. Others get it sooner where memory is scarce: see
// wastes.
const idle = 5 * time.Minute

// rest releases memory by trim where it is not requested again: once each time that there
// was something to do and then nothing for so long, and where wastes says so. It ends with
// the worker.
func (w *Worker) rest(long time.Duration, wastes func() bool, trim func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	at, since, rested := w.pulse(nil), time.Now(), true
	for {
		var now time.Time
		select {
		case <-w.stopped:
			return
		case now = <-tick.C:
		}
		if p := w.pulse(nil); p.Busy || p.Count != at.Count {
			at, since, rested = p, now, false
		}
		if rested {
			continue
		}
		if quietLong := now.Sub(since) >= long; quietLong || wastes() {
			trim()
			rested = quietLong
		}
	}
}

// wastes says whether the allocator keeps more than the session can make use of, or less
// than a quarter of the machine's memory, or a container's, is left. An aligned block has no
// room where one of its size was, as long as what was cut off that one's end is in a
// thread's cache; so the process may have a multiple of what was in use at once.
func (w *Worker) wastes() bool {
	root := os.DirFS("/")
	has, scarce := sysinfo.Resident(), freeMemory(root) < allMemory(root)/4
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wasteful(has, scarce)
}

// wasteful is wastes for a process that has so much memory of its own, in bytes. The
// caller holds w.mu.
func (w *Worker) wasteful(has int64, scarce bool) bool {
	more := has - w.floor - keeps
	if more <= 3*w.most && !(scarce && more > w.bytes) {
		return false
	}
	w.most = 0
	return true
}

// shed releases memory, and measures what is left besides the arrays.
func (w *Worker) shed() {
	pjrt.Trim()
	has := sysinfo.Resident()
	w.mu.Lock()
	w.floor = has - w.bytes
	w.mu.Unlock()
}

// keeps is how much memory, in bytes, a session on a CPU has in any case besides what could
// not be released the last time: what small programs work in.
const keeps = 1 << 30
