package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// KillMarked kills every process that inherited wire.CellEnv with a value that is
// mark or begins with mark and a dot, wherever it has gone, and returns what it
// killed, as "1234 sleep". It looks again until nobody is left: a process may
// fork while others die. An empty mark marks nobody.
func KillMarked(mark string) (killed []string) {
	if mark == "" {
		return nil
	}
	self, env := os.Getpid(), bytes.NewBuffer(make([]byte, 0, 256<<10))
	for range 20 {
		found := false
		for _, p := range sysinfo.Processes() {
			if p.PID == self || p.State == 'Z' {
				continue
			}
			bears, known := marked(p.PID, mark, env)
			if found = found || bears || !known; !bears {
				continue
			}
			if syscall.Kill(p.PID, syscall.SIGKILL) == nil {
				killed = append(killed, fmt.Sprintf("%d %s", p.PID, p.Name))
			}
		}
		if !found {
			return killed
		}
		time.Sleep(2 * time.Millisecond)
	}
	return killed
}

// marked reports whether a process bears the mark, and whether that is known: while a
// process becomes another program (execve), it has no environment for a moment. One that
// was started without any still has arguments, and one of the kernel has no program.
func marked(pid int, mark string, env *bytes.Buffer) (bears, known bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	for range 3 { // what was opened before an execve and read after it is empty, too
		if readEnvironment(dir, env) != nil {
			return false, true
		}
		for _, v := range bytes.Split(env.Bytes(), []byte{0}) {
			if rest, ok := bytes.CutPrefix(v, []byte(wire.CellEnv+"="+mark)); ok && (len(rest) == 0 || rest[0] == '.') {
				return true, true
			}
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil || env.Len() > 0 {
			return false, true
		}
		if arguments, err := os.ReadFile(dir + "/cmdline"); err != nil || len(arguments) == 0 {
			return false, err != nil
		}
	}
	return false, true
}

// readEnvironment reads a process's environment, in one read if env has room for it:
// between two an execve may take the rest away.
func readEnvironment(dir string, env *bytes.Buffer) error {
	env.Reset()
	f, err := os.Open(dir + "/environ")
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = env.ReadFrom(f)
	return err
}

// guardScript waits for the end of its input, which comes when the process that
// holds the other end is gone. Then it kills all that bear the mark ($1) and
// removes the directory ($2).
const guardScript = `
read -r _
for round in 1 2 3; do
	for d in /proc/[0-9]*; do
		grep -qsF "$1" "$d/environ" && kill -9 "${d#/proc/}"
	done
	sleep 0.1
done
[ -n "$2" ] && rm -rf -- "$2"
`

// A Guard cleans up behind a kernel that is killed: it is a small process that
// survives it, kills what its cells left running and removes its temporary
// directory. Close does the same at once.
type Guard struct {
	mark, dir string
	pipe      io.WriteCloser
	cmd       *exec.Cmd
}

// NewGuard starts a guard for all processes marked with mark or anything that
// begins with mark and a dot, and for dir ("" = none).
func NewGuard(mark, dir string) (*Guard, error) {
	if mark == "" || strings.ContainsAny(mark, "\n\x00") {
		return nil, fmt.Errorf("cell: guard: got mark %q, want a word", mark)
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "gaiden-guard", wire.CellEnv+"="+mark, dir)
	// A session of its own: killing the kernel's process group spares it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("cell: guard: %w", err)
	}
	return &Guard{mark, dir, pipe, cmd}, nil
}

// Close kills what bears the mark, removes the directory and ends the guard.
func (g *Guard) Close() {
	KillMarked(g.mark)
	if g.dir != "" {
		os.RemoveAll(g.dir)
	}
	g.cmd.Process.Kill()
	g.pipe.Close()
	g.cmd.Wait()
}
