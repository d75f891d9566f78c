package pjrt

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// child is what a binary of this test does when it is started as a child: XLA
// works in the background, and then something happens.
func child(kind string) {
	p, err := Load(os.Getenv("GAIDEN_PLUGIN"))
	if err == nil {
		err = work(p)
	}
	if err != nil {
		fmt.Println("child:", err)
		os.Exit(3)
	}
	fmt.Println("ready")
	switch kind {
	case "panic":
		go func() { panic("boom from Go") }()
	case "nil":
		defer func() {
			fmt.Println("recovered:", recover())
			os.Exit(0)
		}()
		var q *int
		*q = 1
	case "segv":
		a := newHandleArgs(16)
		purego.SyscallN(p.functions[bufferDestroy], uintptr(unsafe.Pointer(&a)))
	case "abort":
		abort, err := purego.Dlsym(purego.RTLD_DEFAULT, "abort")
		if err != nil {
			panic(err)
		}
		purego.SyscallN(abort)
	}
	time.Sleep(20 * time.Second) // the parent ends us
	runtime.KeepAlive(p)
}

// work keeps a device of p busy.
func work(p *Plugin) error {
	c, err := p.NewClient(modest(p))
	if err != nil {
		return err
	}
	x, err := c.Compile([]byte(loop(2000)), CompileOptions{})
	if err != nil {
		return err
	}
	in, err := c.Upload(floats(1, 1), Float32, nil, nil)
	if err != nil {
		return err
	}
	go func() {
		for out := make([]Buffer, 2); err == nil; {
			if err = x.Execute([]Buffer{in}, out, nil, nil, Wait, nil); err == nil {
				c.Free(out[0])
				c.Free(out[1])
			}
		}
	}()
	return nil
}

// Faults of Go, faults of C and signals do in a process with XLA at work what
// they do in any Go program: so the supervisor sees how its worker ended.
func TestFaults(t *testing.T) {
	client(t)
	tests := []struct {
		name   string
		signal os.Signal // sent when the child is ready
		code   int       // -1: ended by the signal
		want   []string
	}{
		{"panic", nil, 2, []string{"panic: boom from Go", "pjrt.child.func"}},
		{"nil", nil, 0, []string{"recovered: runtime error: invalid memory address"}},
		{"segv", nil, 2, []string{"SIGSEGV", "goroutine 1"}},
		{"abort", nil, 2, []string{"SIGABRT", "goroutine 1"}},
		{"interrupt", os.Interrupt, -1, nil},
		{"quit", syscall.SIGQUIT, 2, []string{"SIGQUIT", "pjrt.work"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "GAIDEN_PJRT_CHILD="+tt.name)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd.Stdout, cmd.Stderr = w, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			timer := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
			defer timer.Stop()
			out := untilReady(r)
			if tt.signal != nil {
				time.Sleep(50 * time.Millisecond) // so that XLA's threads compute
				cmd.Process.Signal(tt.signal)
			}
			rest, _ := io.ReadAll(r)
			out += string(rest)
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("got %v, want exit status %d; output:\n%.2000s", cmd.ProcessState, tt.code, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("output has no %q:\n%.2000s", want, out)
				}
			}
		})
	}
}

// untilReady reads the child's output up to the word ready.
func untilReady(r io.Reader) string {
	var b []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(b), "ready\n"); {
		if n, err := r.Read(one); n == 0 || err != nil {
			break
		}
		b = append(b, one[0])
	}
	return string(b)
}

// resident is the process's resident memory in kilobytes, 0 where /proc is not.
func resident() (kb int) {
	b, _ := os.ReadFile("/proc/self/status")
	if m := regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(b); m != nil {
		fmt.Sscan(string(m[1]), &kb)
	}
	return kb
}
