// Package faults makes system calls of real processes fail, for tests.
//
// A [Plan] names the calls that count: those on files below some directories, and
// on sockets. [Command] starts a program under a tracer that counts them, in the
// program and in everything it starts. The call whose number is Plan.Hit returns an
// error, moves only some of its bytes, or is the last thing its process does.
//
//	func TestMain(m *testing.M) {
//		faults.Main() // does not return in the tracer's process
//		os.Exit(m.Run())
//	}
//	…
//	cmd, log := faults.Command(faults.Plan{Under: []string{dir}, Hit: 17, Error: unix.ENOSPC}, program)
//	err := cmd.Run()
//	calls, err := faults.Read(log) // which calls there were; one of them is Hit
//
// A test counts the calls of a workload first (Hit is 0), and then hits each of
// them, as SQLite's tests do with its I/O errors: afterwards nothing that was
// acknowledged is lost, every error is clear, and the next run heals.
//
// Nothing in the program is changed for it: a seccomp filter stops the calls (see
// seccomp(2), SECCOMP_RET_TRACE), and ptrace(2) changes them. It works on Linux on
// x86-64, without root.
package faults
