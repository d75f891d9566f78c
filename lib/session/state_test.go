package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestLargeOnDisk holds that a program that works in 128 MB is kept on disk: XLA writes none
// whose memory it was told to make of several blocks.
func TestLargeOnDisk(t *testing.T) {
	p := serve(t)
	s := p.open("large")
	compile(t, s, Options{}, func(in []*Node) []*Node {
		x := in[0]
		y := OptimizationBarrier(MatMul(x, x)) // or all would be one kernel
		z := OptimizationBarrier(MatMul(y, x))
		return []*Node{ReduceAllSum(Sin(OptimizationBarrier(MatMul(z, y))))}
	}, f32(4000, 4000))
	within(t, "the program on disk", func() bool { return len(p.programFiles()) == 1 })
}

func TestProgramsOnDisk(t *testing.T) {
	p := serve(t)
	s := p.open("disk")
	compiles := func(want wire.Source) {
		t.Helper()
		x := addOne(t, s, Options{}, f32(7))
		if x.From != want {
			t.Errorf("program is a %s, want a %s", x.From, want)
		}
		out, err := x.Run(Call{Inputs: []*Array{put(t, s, 1, 2, 3, 4, 5, 6, 7)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(values(t, out[0])); got != "[2 3 4 5 6 7 8]" {
			t.Errorf("got %s", got)
		}
	}
	next := func() {
		t.Helper()
		within(t, "a program on disk", func() bool { return len(p.programFiles()) == 1 && strings.HasSuffix(p.programFiles()[0], ".program") })
		syscall.Kill(p.worker(s), syscall.SIGKILL)
		s.Wait()
		s = p.reopen("disk")
	}
	compiles(wire.Compiled)
	compiles(wire.Memory)
	next()
	compiles(wire.Disk)
	compiles(wire.Memory)
	damages := []struct {
		name string
		do   func(path string, b []byte) error
	}{
		{"torn", func(path string, b []byte) error { return os.Truncate(path, int64(len(b)/2)) }},
		{"empty", func(path string, b []byte) error { return os.Truncate(path, 0) }},
		{"flipped", func(path string, b []byte) error {
			b[len(b)-100] ^= 4
			return os.WriteFile(path, b, 0o600)
		}},
		{"foreign", func(path string, b []byte) error { return os.WriteFile(path, []byte("#!/bin/sh\necho hello\n"), 0o600) }},
		{"another's", func(path string, b []byte) error {
			b[10] ^= 1 // of its key
			return os.WriteFile(path, b, 0o600)
		}},
		{"link", func(path string, b []byte) error {
			return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path))
		}},
		{"directory", func(path string, b []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
	}
	for _, tt := range damages {
		next()
		path := p.programFiles()[0]
		b, _ := os.ReadFile(path)
		if err := tt.do(path, b); err != nil {
			t.Fatal(err)
		}
		compiles(wire.Compiled)
		if t.Failed() {
			t.Fatalf("after a file that is %s", tt.name)
		}
	}
	next()
	compiles(wire.Disk)
	// Another device or plugin is another key: here, other flags of XLA.
	p.stop()
	p.again("XLA_FLAGS=--xla_cpu_enable_fast_math=false")
	s = p.reopen("disk")
	compiles(wire.Compiled)
}

func TestProgramDirectories(t *testing.T) {
	needPlugin(t)
	for _, tt := range []struct {
		name string
		do   func(dir string) error
		want string
	}{
		{"readable by others", func(dir string) error { return os.Mkdir(dir, 0o755) }, "has mode 0755"},
		{"link", func(dir string) error { return os.Symlink(os.TempDir(), dir) }, "symbolic link"},
		{"file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &process{t: t, dir: t.TempDir()}
			p.socket = filepath.Join(p.dir, "run", "session.sock")
			if err := os.MkdirAll(p.dir+"/cache/gaiden", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := tt.do(p.dir + "/cache/gaiden/programs"); err != nil {
				t.Fatal(err)
			}
			os.Chmod(p.dir+"/cache/gaiden/programs", 0o755)
			p.again()
			s := p.open("x")
			if x := addOne(t, s, Options{}, f32(3)); x.From != wire.Compiled {
				t.Errorf("program is a %s", x.From)
			}
			ans := askAll(t, s, wire.AskBody{Verb: wire.Programs})
			if !strings.Contains(ans.Cache.Off, tt.want) {
				t.Errorf("cache is off because of %q, want %q", ans.Cache.Off, tt.want)
			}
		})
	}
}

func TestPinAndEvict(t *testing.T) {
	p := serve(t)
	s := p.open("evict")
	a, b := addOne(t, s, Options{}, f32(1)), addOne(t, s, Options{}, f32(2))
	within(t, "2 programs on disk", func() bool { return len(p.programFiles()) == 2 })
	hash := func(x *Program) string { return fmt.Sprintf("%x", x.asked.Hash[:6]) }
	s.Close()
	s = p.open("evict")
	within(t, "programs that nobody holds", func() bool {
		return !slices.ContainsFunc(askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs, func(i wire.ProgramInfo) bool { return i.Clients > 0 })
	})
	askAll(t, s, wire.AskBody{Verb: wire.Pin, Names: []string{hash(a)}, Start: true})
	askAll(t, s, wire.AskBody{Verb: wire.Evict})
	l := askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs
	if len(l) != 1 || l[0].Hash != hash(a) || !l[0].Pinned || l[0].Clients != 0 {
		t.Errorf("got %+v, want the pinned program only", l)
	}
	if n := askAll(t, s, wire.AskBody{Verb: wire.Evict, Names: []string{hash(a)}}).Count; n != 1 {
		t.Errorf("evicted %d by hash, want 1", n)
	}
	if _, err := s.Ask(wire.AskBody{Verb: wire.Pin, Names: []string{hash(b)}, Start: true}); !errors.Is(err, wire.NotFound) {
		t.Errorf("pin of a program that is not there: got %v", err)
	}
	if n := askAll(t, s, wire.AskBody{Verb: wire.Evict, Disk: true}).Count; n != 2 || len(p.programFiles()) != 0 {
		t.Errorf("evicted %d from disk and %d are left, want 2 and 0", n, len(p.programFiles()))
	}
}

func TestQuota(t *testing.T) {
	p := serve(t)
	s := p.open("quota")
	if err := s.Quota(1 << 20); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"big": make([]float32, 200_000)})
	x := addOne(t, s, Options{}, f32(200_000))
	a, err := s.Array("big")
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.Run(Call{Inputs: []*Array{a}})
	if err != nil {
		t.Fatal(err)
	}
	err = out[0].Values(make([]float32, 200_000))
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.OutOfMemory || !strings.Contains(e.Text, "quota is 1.0 MB") || !strings.Contains(e.Next, "big") {
		t.Errorf("execute: got %v, want the quota and the largest array", err)
	}
	b, err := s.Put(make([]float32, 100_000), f32(100_000), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Values(make([]float32, 100_000)); !errors.Is(err, wire.OutOfMemory) {
		t.Errorf("upload: got %v", err)
	}
	other := p.open("rich")
	bindAll(t, other, map[string][]float32{"big": make([]float32, 400_000)})
	for _, i := range askAll(t, other, wire.AskBody{Verb: wire.Spaces}).Spaces {
		want := map[string]int64{"quota": 800_000, "rich": 1_600_000}[i.Space]
		if i.Bytes != want {
			t.Errorf("space %s holds %d bytes, want %d", i.Space, i.Bytes, want)
		}
	}
	if err := s.Quota(-1); err != nil {
		t.Fatal(err)
	}
	if out, err = x.Run(Call{Inputs: []*Array{a}}); err != nil {
		t.Fatal(err)
	}
	if err := out[0].Values(make([]float32, 200_000)); err != nil {
		t.Errorf("without a quota: got %v", err)
	}
}

// TestTwoSessions holds that two sessions use one cache at once, and that only
// one of them keeps snapshots.
func TestTwoSessions(t *testing.T) {
	p := serve(t)
	q := &process{t: t, dir: p.dir, socket: filepath.Join(t.TempDir(), "run", "session.sock")}
	q.again()
	s, o := p.open("two"), q.open("two")
	for i := range 6 {
		addOne(t, s, Options{}, f32(i+1))
		addOne(t, o, Options{}, f32(i+1))
	}
	bindAll(t, s, map[string][]float32{"w": {1}})
	bindAll(t, o, map[string][]float32{"w": {2}})
	if _, err := s.Snapshot(""); err != nil {
		t.Error(err)
	}
	if _, err := o.Snapshot(""); !errors.Is(err, wire.Unavailable) || !strings.Contains(err.Error(), "another session") {
		t.Errorf("second session: got %v", err)
	}
	within(t, "6 programs on disk", func() bool { return len(p.programFiles()) == 6 })
}

// TestFullDisk holds that a disk without room loses nothing.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to mount a small file system: run as root")
	}
	needPlugin(t)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=68m,mode=0700", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a small file system: %v: %s; run it as root, outside of a container", err, out)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	p := serve(t, "XDG_STATE_HOME="+dir)
	s := p.open("full")
	bindAll(t, s, map[string][]float32{"w": {1}})
	if _, err := s.Snapshot("small"); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"w": {2}, "big": make([]float32, 10<<20)})
	_, err := s.Snapshot("large")
	if !errors.Is(err, wire.Unavailable) || !strings.Contains(err.Error(), "disk has") || !strings.Contains(err.Error(), "67.1 MB are kept free") {
		t.Errorf("got %v, want what is left of the disk, and what of it must be", err)
	}
	if st, _ := s.Status(); !strings.Contains(st.Trouble, "disk has") {
		t.Errorf("status says %q", st.Trouble)
	}
	if err := s.MarkCell("rollback"); err != nil {
		t.Fatal(err)
	}
	if i, err := s.Rollback("small", ""); err != nil || !strings.Contains(i.Unsaved, "disk has") {
		t.Errorf("rollback without room to save what there is: got %+v, %v, want why it was not saved", i, err)
	}
	if got := look(t, s); got != "w[1]" {
		t.Errorf("after it: got %s", got)
	}
	if n, err := s.Undo(); err != nil || n != 2 {
		t.Errorf("undo of it: got %d arrays, %v, want 2", n, err)
	}
	if l, err := s.List(""); err != nil || len(l) != 2 {
		t.Errorf("after the undo: got %v, %v, want w and big", l, err)
	}
	if _, err := s.Delete("big"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback("small", ""); err != nil {
		t.Error(err)
	}
	if got := look(t, s); got != "w[1]" {
		t.Errorf("got %s", got)
	}
	if st, _ := s.Status(); st.Trouble != "" {
		t.Errorf("status says %q after it went well again", st.Trouble)
	}
}
