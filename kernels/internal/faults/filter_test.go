package faults

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// where says how the file of a system call is found.
type where struct {
	name  string
	path  int  // argument that is a path, or -1
	dir   int  // argument that is the directory descriptor of path, or -1
	file  int  // argument that is a file descriptor, or -1
	to    int  // argument that is a second path, or -1
	bytes int  // argument that is the number of bytes, which Short halves, or -1
	write bool // it changes the file
}

// watched are the system calls that are stopped.
var watched = map[uint64]where{
	unix.SYS_OPEN:            {"open", 0, -1, -1, -1, -1, false},
	unix.SYS_OPENAT:          {"openat", 1, 0, -1, -1, -1, false},
	unix.SYS_READ:            {"read", -1, -1, 0, -1, 2, false},
	unix.SYS_PREAD64:         {"pread64", -1, -1, 0, -1, 2, false},
	unix.SYS_WRITE:           {"write", -1, -1, 0, -1, 2, true},
	unix.SYS_PWRITE64:        {"pwrite64", -1, -1, 0, -1, 2, true},
	unix.SYS_WRITEV:          {"writev", -1, -1, 0, -1, -1, true},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", -1, -1, 2, -1, 4, true},
	unix.SYS_SENDFILE:        {"sendfile", -1, -1, 0, -1, 3, true},
	unix.SYS_FSYNC:           {"fsync", -1, -1, 0, -1, -1, false},
	unix.SYS_FDATASYNC:       {"fdatasync", -1, -1, 0, -1, -1, false},
	unix.SYS_FTRUNCATE:       {"ftruncate", -1, -1, 0, -1, -1, true},
	unix.SYS_FALLOCATE:       {"fallocate", -1, -1, 0, -1, -1, true},
	unix.SYS_FLOCK:           {"flock", -1, -1, 0, -1, -1, false},
	unix.SYS_MMAP:            {"mmap", -1, -1, 4, -1, -1, false},
	unix.SYS_RENAME:          {"rename", 0, -1, -1, 1, -1, false},
	unix.SYS_RENAMEAT:        {"renameat", 1, 0, -1, 3, -1, false},
	unix.SYS_RENAMEAT2:       {"renameat2", 1, 0, -1, 3, -1, false},
	unix.SYS_LINKAT:          {"linkat", 1, 0, -1, 3, -1, false},
	unix.SYS_UNLINKAT:        {"unlinkat", 1, 0, -1, -1, -1, false},
	unix.SYS_MKDIRAT:         {"mkdirat", 1, 0, -1, -1, -1, false},
	unix.SYS_GETDENTS64:      {"getdents64", -1, -1, 0, -1, -1, false},
	unix.SYS_SENDTO:          {"sendto", -1, -1, 0, -1, -1, false},
	unix.SYS_SENDMSG:         {"sendmsg", -1, -1, 0, -1, -1, false},
	unix.SYS_RECVMSG:         {"recvmsg", -1, -1, 0, -1, -1, false},
	unix.SYS_RECVFROM:        {"recvfrom", -1, -1, 0, -1, -1, false},
}

// filterAndExec makes the kernel stop this process, and all that it will start,
// at the watched calls, and becomes the program.
func filterAndExec(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no program: want its path")
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, planVariable+"=") && !strings.HasPrefix(v, filterVariable+"=") {
			env = append(env, v)
		}
	}
	const offsetNumber, offsetArch = 0, 4 // in struct seccomp_data
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AUDIT_ARCH_X86_64, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNumber},
	}
	for number := range watched {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(number), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	runtime.LockOSThread() // the filter is this thread's, which calls exec
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return syscall.Exec(args[0], args, env)
}
