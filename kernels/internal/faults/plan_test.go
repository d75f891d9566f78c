package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// An Effect is what happens at the call that is hit.
type Effect string

const (
	Fail  Effect = "fail"  // the call returns Plan.Error and has done nothing
	Short Effect = "short" // a read or write moves half of its bytes
	Torn  Effect = "torn"  // a write moves half of its bytes, then its process is killed
	Kill  Effect = "kill"  // its process is killed before the call
	Halt  Effect = "halt"  // every process is killed before the call, as in a power cut
)

// A Plan says which calls count and what happens at one of them.
type Plan struct {
	Under    []string // directories: calls on files below them count
	Sockets  bool     // calls on sockets count, too
	Programs []string // base names of the executables whose calls count; default: all
	Hit      int      // the number of the call, from 1; 0 hits none
	Effect   Effect   // default: Fail
	Error    syscall.Errno
}

// String is the plan's effect and number, for a test's log.
func (p Plan) String() string {
	if p.Effect == Fail || p.Effect == "" {
		return fmt.Sprintf("%v at call %d", p.Error, p.Hit)
	}
	return fmt.Sprintf("%s at call %d", p.Effect, p.Hit)
}

// A Call is a system call that counted.
type Call struct {
	Number  int
	Program string // base name of the executable
	Name    string // of the system call
	Path    string // of the file, or socket:[…]
	To      string // of a rename or link
	Hit     bool
}

func (c Call) String() string {
	s := fmt.Sprintf("%s of %s on %s", c.Name, c.Program, c.Path)
	if c.To != "" {
		s += " to " + c.To
	}
	return s
}

// Environment of the tracer, and of the program between fork and exec.
const (
	planVariable   = "GAIDEN_FAULTS_PLAN"
	filterVariable = "GAIDEN_FAULTS_FILTER"
)

type plan struct {
	Plan
	Log string
}

// Command is name with args under a tracer that follows the plan. It ends when
// the program and all that it has started have ended, with the program's exit
// status; SIGTERM and SIGINT go to the program. The calls are in the file log
// then, which the caller removes. File 3 is passed on where ExtraFiles has one.
func Command(p Plan, name string, args ...string) (cmd *exec.Cmd, log string, err error) {
	f, err := os.CreateTemp("", "calls-*.json")
	if err != nil {
		return nil, "", err
	}
	f.Close()
	for i, dir := range p.Under {
		// The kernel tells paths without symbolic links.
		if p.Under[i], err = filepath.EvalSymlinks(dir); err != nil {
			return nil, "", err
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		name = path
	}
	text, err := json.Marshal(plan{p, f.Name()})
	if err != nil {
		return nil, "", err
	}
	cmd = exec.Command("/proc/self/exe", append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), planVariable+"="+string(text))
	return cmd, f.Name(), nil
}

// Main plays the tracer in a process that [Command] has started, and does not
// return there. A test program calls it first in TestMain.
func Main() {
	if os.Getenv(filterVariable) != "" {
		fmt.Fprintln(os.Stderr, "faults:", filterAndExec(os.Args[1:]))
		os.Exit(126)
	}
	text := os.Getenv(planVariable)
	if text == "" {
		return
	}
	var p plan
	status, err := 126, json.Unmarshal([]byte(text), &p)
	if err == nil {
		status, err = trace(p, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	os.Exit(status)
}

// Read returns the calls that a tracer has written down.
func Read(log string) ([]Call, error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var calls []Call
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c Call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return calls, fmt.Errorf("faults: %s: %w", log, err)
		}
		calls = append(calls, c)
	}
	if len(calls) == 0 {
		return nil, errors.New("faults: no call counted: want at least one below the directories of the plan")
	}
	return calls, nil
}

// counts says whether a call on a file counts.
func (p *plan) counts(program, path string) bool {
	if len(p.Programs) > 0 {
		known := false
		for _, name := range p.Programs {
			known = known || name == program
		}
		if !known {
			return false
		}
	}
	if strings.HasPrefix(path, "socket:") {
		return p.Sockets
	}
	for _, dir := range p.Under {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}
