package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// patience is how long one step of a workload may take before it hangs.
const patience = 20 * time.Second

// size is the length of the arrays: a few pages of a file.
const size = 4096

// A supervisor is a session of a test, with its files in dir.
type supervisor struct {
	*exec.Cmd
	dir, socket string
	said        string // its first line: ready, or why not
	log         *strings.Builder
}

// serve starts a session by cmd, in directories below dir.
func serve(cmd *exec.Cmd, dir string) (*supervisor, error) {
	s := &supervisor{Cmd: cmd, dir: dir, socket: filepath.Join(dir, "run", "session.sock"), log: &strings.Builder{}}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, devicetest.Role+"=serve", "GAIDEN_SOCKET="+s.socket,
		"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd.ExtraFiles, cmd.Stderr = []*os.File{w}, s.log
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	r.SetReadDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(r).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("the session said nothing for %v", patience)
	}
	s.said = strings.TrimSpace(line)
	return s, nil
}

// end stops the session.
func (s *supervisor) end() error {
	s.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- s.Wait() }()
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		s.Process.Kill()
		return fmt.Errorf("the session has not stopped after %v", patience)
	}
}

// A workload is what a client does, and what it was told of it.
type workload struct {
	socket, file string
	s            *session.Session
	program      *session.Program
	now          float32   // what the arrays hold, 0 where there are none
	unsure       bool      // a step has failed: now has to be looked up
	since        []float32 // what they have held since the last snapshot that was acknowledged
	keep         float32   // what snapshot "keep" holds, 0 where it was not acknowledged
	exported     float32   // what the file holds, 0 where it was not acknowledged
	failures     []error
}

// step does one thing, with a new connection where the last one was lost.
func (w *workload) step(name string, do func() error) bool {
	done := make(chan error, 1)
	go func() {
		if w.s == nil {
			s, err := session.Config{Socket: w.socket, Space: "nb"}.Open()
			if err != nil {
				done <- err
				return
			}
			w.s = s
		}
		err := do()
		if err == nil {
			err = w.s.Wait()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			w.failures, w.unsure = append(w.failures, fmt.Errorf("%s: %w", name, err)), true
			if w.s != nil {
				w.s.Close()
			}
			w.s, w.program = nil, nil
		}
		return err == nil
	case <-time.After(patience):
		w.failures = append(w.failures, fmt.Errorf("%s: HANGS for %v", name, patience))
		w.s, w.program, w.unsure = nil, nil, true
		return false
	}
}

// set binds both arrays to one value, together.
func (w *workload) set(v float32) {
	w.change("bind", v, func() error {
		var arrays []*session.Array
		for range 2 {
			flat := make([]float32, size)
			for i := range flat {
				flat[i] = v
			}
			a, err := w.s.Put(flat, shapes.Make(dtypes.Float32, size), 0)
			if err != nil {
				return err
			}
			arrays = append(arrays, a)
		}
		return w.s.Bind([]string{"a", "b"}, arrays)
	})
}

// train replaces both arrays by themselves plus one, by a program.
func (w *workload) train() {
	if w.look(); w.now == 0 {
		w.set(1)
	}
	w.change("train", w.now+1, func() error {
		if w.program == nil {
			p, err := increment(w.s)
			if err != nil {
				return err
			}
			w.program = p
		}
		in, err := w.s.Arrays("a", "b")
		if err != nil {
			return err
		}
		_, err = w.program.Run(session.Call{Inputs: in, Names: []string{"a", "b"}})
		return err
	})
}

// change does a step that gives the arrays the value v, or may have done so where
// it fails.
func (w *workload) change(name string, v float32, do func() error) {
	w.since = append(w.since, v)
	if w.step(name, do) {
		w.now = v
	}
}

// look asks what the arrays hold where a step has failed: that of the last
// snapshot, or something later.
func (w *workload) look() {
	if !w.unsure {
		return
	}
	var v float32
	if !w.step("look", func() (err error) {
		v, err = whole(w.s)
		if errors.Is(err, wire.NotFound) {
			return nil
		}
		return err
	}) {
		return
	}
	w.now, w.unsure = v, false
	if !slices.Contains(w.since, v) {
		w.failures = append(w.failures, fmt.Errorf("WRONG: the arrays hold %v, want one of %v", v, w.since))
	}
}

func (w *workload) snapshot(name string) {
	w.look()
	if w.step("snapshot", func() error { _, err := w.s.Snapshot(name); return err }) && !w.unsure {
		w.since = []float32{w.now}
		if name != "" {
			w.keep = w.now
		}
	}
}

// run is the whole workload.
func (w *workload) run() {
	w.set(1)
	w.snapshot("")
	w.train()
	w.snapshot("keep")
	w.train()
	w.snapshot("")
	if w.keep != 0 {
		w.change("rollback", w.keep, func() error { _, err := w.s.Rollback("keep", ""); return err })
	}
	w.train()
	w.look()
	if w.step("export", func() error { _, err := w.s.Export(w.file, "", "", nil); return err }) && !w.unsure {
		w.exported = w.now
	}
	w.snapshot("")
	if w.s != nil {
		w.s.Close()
	}
}

func increment(s *session.Session) (*session.Program, error) {
	g := NewGraph(s.Backend(), "increment")
	var out []*Node
	for _, name := range []string{"a", "b"} {
		out = append(out, AddScalar(Parameter(g, name, shapes.Make(dtypes.Float32, size)), 1))
	}
	if err := g.Compile(out...); err != nil {
		return nil, err
	}
	return s.Compile(g.Executable().(*session.Executable).Program(), session.Options{Donate: []bool{true, true}})
}

// whole is the value of both arrays, which is one value.
func whole(s *session.Session) (float32, error) {
	arrays, err := s.Arrays("a", "b")
	if err != nil {
		return 0, err
	}
	var first float32
	for i, a := range arrays {
		v := make([]float32, size)
		if err := a.Values(v); err != nil {
			return 0, err
		}
		if i == 0 {
			first = v[0]
		}
		for j := range v {
			if v[j] != first {
				return 0, fmt.Errorf("MIXED: array %d holds %v at %d, the first holds %v", i, v[j], j, first)
			}
		}
	}
	return first, nil
}

// check looks at what client and session have said, and at what a healthy session finds
// after the workload.
func (w *workload) check(dir string, was *supervisor) error {
	said := append(w.failures, errors.New(was.said), errors.New(was.log.String()))
	for _, err := range said {
		for _, bad := range []string{"panic", "runtime error", "goroutine ", "nil pointer", "HANGS", "WRONG", "MIXED"} {
			if strings.Contains(err.Error(), bad) {
				return fmt.Errorf("an error of the session: %w", err)
			}
		}
	}
	if was.said != "ready" && was.said != "" { // it may have been killed before it said a word
		why := &wire.Error{}
		if err := json.Unmarshal([]byte(was.said), why); err != nil || why.Text == "" {
			return fmt.Errorf("the session said %q in place of ready, want an error", was.said)
		}
	}
	sup, err := serve(exec.Command("/proc/self/exe"), dir)
	if err != nil {
		return err
	}
	defer sup.end()
	if sup.said != "ready" {
		return fmt.Errorf("the next session said %q", sup.said)
	}
	s, err := session.Config{Socket: sup.socket, Space: "nb"}.Open()
	if err != nil {
		return fmt.Errorf("the next session: %w", err)
	}
	defer s.Close()
	note := s.Welcome().Note
	v, err := whole(s)
	switch {
	case err != nil && !slices.Contains(w.since, 0):
		return fmt.Errorf("LOST: a snapshot was acknowledged, and the next session says: %w (note %q)", err, note)
	case err == nil && !slices.Contains(w.since, v):
		return fmt.Errorf("OLD: the arrays hold %v, want one of %v (note %q)", v, w.since, note)
	case err != nil && strings.Contains(err.Error(), "MIXED"):
		return err
	}
	if w.keep != 0 {
		if _, err := s.Rollback("keep", ""); err != nil {
			return fmt.Errorf("LOST: snapshot keep was acknowledged: %w", err)
		}
		if v, err := whole(s); err != nil || v != w.keep {
			return fmt.Errorf("snapshot keep holds %v (%v), want %v", v, err, w.keep)
		}
	}
	if w.exported != 0 {
		if _, err := s.Import(w.file, ""); err != nil {
			return fmt.Errorf("LOST: the exported file was acknowledged: %w", err)
		}
		if v, err := whole(s); err != nil || v != w.exported {
			return fmt.Errorf("the exported file holds %v (%v), want %v", v, err, w.exported)
		}
	}
	again := workload{socket: sup.socket, s: s}
	again.set(10)
	again.train()
	if again.failures != nil {
		return fmt.Errorf("the next session does not work: %w", errors.Join(again.failures...))
	}
	if v, err := whole(s); err != nil || v != 11 {
		return fmt.Errorf("10 plus 1 is %v (%v): want 11", v, err)
	}
	return nil
}

// once runs the workload under a plan, and the check after it.
func once(t *testing.T, p Plan) (calls []Call, log string, err error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "session-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p.Under, p.Sockets = []string{dir}, true
	cmd, file, err := Command(p, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	sup, err := serve(cmd, dir)
	if err != nil {
		return nil, "", err
	}
	w := &workload{socket: sup.socket, file: filepath.Join(dir, "exported.safetensors"), since: []float32{0}}
	if sup.said == "ready" {
		w.run()
	}
	err = sup.end()
	calls, errCalls := Read(file)
	if err = errors.Join(err, errCalls); err == nil {
		err = w.check(dir, sup)
	}
	log = fmt.Sprintf("session said %q\nfailures of the client: %v\nsession's log:\n%s", sup.said, errors.Join(w.failures...), sup.log)
	if p.Hit == 0 && w.failures != nil {
		err = errors.Join(err, errors.Join(w.failures...))
	}
	return calls, log, err
}

// TestSession hits each call of a session during a workload of binds, programs,
// snapshots, a rollback and an export. What was acknowledged is there afterwards.
func TestSession(t *testing.T) {
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file, or use scripts/test, which fetches one")
	}
	sweep(t, 6, func(p Plan) ([]Call, error) {
		calls, log, err := once(t, p)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, log)
		}
		return calls, err
	})
}
