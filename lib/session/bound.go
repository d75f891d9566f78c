package session

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// StartBound starts a command that receives the signal end when this process ends,
// even if this process is killed. Linux sends the signal when the thread that started
// the command exits, so one thread that never exits starts all commands. The error is
// that of cmd.Start.
func StartBound(cmd *exec.Cmd, end syscall.Signal) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = end
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

// starter is the thread of StartBound, which does what it is sent.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})
