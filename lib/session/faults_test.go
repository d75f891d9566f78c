package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// full says whether the fault campaign runs at its full size, as scripts/test
// faults does: GAIDEN_FAULTS=full. Everywhere else it is a sample of it.
func full() bool { return os.Getenv("GAIDEN_FAULTS") == "full" }

// times is the number of faults to inject.
func times(campaign, sample int) int {
	if full() {
		return campaign
	}
	return sample
}

// TestFaultsWorkerKilled kills the worker at random instants of a training with
// snapshots, by a client that goes on where it was. The arrays that come back
// are a set, and never older than the last snapshot that was reported.
func TestFaultsWorkerKilled(t *testing.T) {
	p := serve(t)
	r := rand.New(rand.NewPCG(5, 6))
	s := p.open("kills")
	zero := make([]float32, 1000)
	bindAll(t, s, map[string][]float32{"a": zero, "b": zero})
	if _, err := s.Snapshot(""); err != nil {
		t.Fatal(err)
	}
	saved, generation := float32(0), s.Welcome().Generation
	for i := range times(100, 6) {
		x := addOne(t, s, Options{Donate: []bool{true, true}}, f32(1000), f32(1000))
		l, err := s.Arrays("a", "b")
		if err != nil {
			t.Fatal(err)
		}
		v, w := values(t, l[0]), values(t, l[1])
		for k := range v {
			if v[k] != v[0] || w[k] != v[0] {
				t.Fatalf("kill %d: arrays are mixed: %v and %v", i, v[k], w[k])
			}
		}
		if v[0] < saved {
			t.Fatalf("kill %d: %v has come back, the last snapshot was of %v", i, v[0], saved)
		}
		pid := p.worker(s)
		at := v[0]
		var mu sync.Mutex
		go func(wait time.Duration) {
			time.Sleep(wait)
			syscall.Kill(pid, syscall.SIGKILL)
		}(time.Duration(5+r.IntN(60)) * time.Millisecond)
		for n := 0; ; n++ { // until the worker is killed
			if l, err = x.Run(Call{Inputs: l, Names: []string{"a", "b"}}); err != nil {
				break
			}
			at++
			if n%50 == 49 {
				if _, err := s.Snapshot(""); err != nil {
					break
				}
				mu.Lock()
				saved = at
				mu.Unlock()
			}
		}
		if !errors.Is(err, wire.Lost) && err != nil {
			t.Fatalf("kill %d: got %v, want that the worker has ended", i, err)
		}
		s.Close()
		s = p.reopen("kills")
		if g := s.Welcome().Generation; g != generation+1 {
			t.Fatalf("kill %d: generation %d, want %d", i, g, generation+1)
		}
		generation++
		if note := s.Welcome().Note; !strings.Contains(note, "2 arrays are back") {
			t.Errorf("kill %d: note is %q", i, note)
		}
	}
	if saved == 0 {
		t.Error("no snapshot was made before a kill: the test has tested nothing")
	}
}

// TestFaultsSupervisorKilled kills the supervisor, or both processes, and starts
// again from disk.
func TestFaultsSupervisorKilled(t *testing.T) {
	p := serve(t)
	for i := range times(100, 4) {
		s := p.reopen("down")
		if i > 0 {
			if got, want := look(t, s), fmt.Sprintf("w[%d]", i-1); got != want {
				t.Fatalf("kill %d: got %s, want %s", i, got, want)
			}
		}
		bindAll(t, s, map[string][]float32{"w": {float32(i)}})
		if _, err := s.Snapshot(""); err != nil {
			t.Fatal(err)
		}
		bindAll(t, s, map[string][]float32{"w": {-1}})
		worker := p.worker(s)
		if i%2 == 0 {
			syscall.Kill(worker, syscall.SIGKILL)
		}
		p.kill()
		within(t, "the worker to die with its supervisor", func() bool { return !alive(worker) })
		p.again()
	}
}

// TestFaultsPrograms runs programs that fail. Each error names its program, and
// no array is touched.
func TestFaultsPrograms(t *testing.T) {
	p := serve(t)
	s := p.open("programs")
	bindAll(t, s, map[string][]float32{"w": {1, 2, 3}})
	// x becomes the logarithm of itself until it is negative, and then NaN.
	log := JobStep{Program: compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Log(in[0])} }, f32(1)),
		Inputs: Named("x"), Names: []string{"x"}, Read: []wire.Read{{Name: "x"}}, Finite: true}
	for i := range times(50, 3) {
		bindAll(t, s, map[string][]float32{"x": {1.5 + float32(i)}})
		if _, err := s.StartJob(Job{Name: "logarithms", Turns: 100, Steps: []JobStep{log}}); err != nil {
			t.Fatal(err)
		}
		info, _ := follow(t, s, "logarithms")
		if info.State != wire.JobFailed || info.Error == nil || !strings.Contains(info.Error.Error(), "x is NaN") {
			t.Errorf("NaN: got %+v, want a job that failed as x is NaN", info)
		}
		x, err := s.Array("x")
		if err != nil {
			t.Fatal(err)
		}
		if v := values(t, x)[0]; !(v < 0) {
			t.Errorf("NaN: x is %v, want the negative number before it", v)
		}
		x.Finalize()
		if _, err := s.Delete("x"); err != nil {
			t.Fatal(err)
		}
		if got := look(t, s); got != "w[1 2 3]" {
			t.Fatalf("after NaN: got %s", got)
		}
	}
	// The compiler refuses memory that no machine has, or the device does.
	for i := range times(50, 3) {
		g := NewGraph(s.Backend(), "too large")
		x := Parameter(g, "x", f32(1))
		if err := g.Compile(Add(BroadcastToDims(x, 1<<43+i), IotaFull(g, f32(1<<43+i)))); err != nil {
			t.Fatal(err)
		}
		huge, err := s.Compile(g.Executable().(*Executable).Program(), Options{})
		if err == nil {
			var out []*Array
			if out, err = huge.Run(Call{Inputs: []*Array{put(t, s, 1)}}); err == nil {
				err = s.Wait()
			}
			for _, a := range out {
				a.Finalize()
			}
		}
		if err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("32 TiB: got %v, want an error that names the program", err)
		}
		b := wire.ProgramBody{Handle: s.handles.Add(1), Name: "nonsense", Text: fmt.Appendf(nil, "module { what %d }", i), Replicas: 1}
		b.Hash = wire.Key(b.Text, "", 1, nil)
		if _, _, err := s.ask(wire.Program, b.Append); !errors.Is(err, wire.CompileError) || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("nonsense: got %v, want a compile error that names the program", err)
		}
		if got := look(t, s); got != "w[1 2 3]" {
			t.Fatalf("after programs that failed: got %s", got)
		}
	}
}

// TestFaultsMany holds the bounds: many clients, arrays and programs.
func TestFaultsMany(t *testing.T) {
	p := serve(t)
	arrays, programs := times(10_000, 1500), times(1000, 40)
	s := p.open("many")
	var names []string
	var l []*Array
	for i := range arrays {
		names = append(names, fmt.Sprintf("array %05d", i))
		l = append(l, put(t, s, float32(i)))
	}
	if err := s.Bind(names, l); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	info, err := s.Snapshot("many")
	if err != nil || info.Arrays != arrays {
		t.Fatalf("got %+v, %v", info, err)
	}
	t.Logf("snapshot of %d arrays took %v", arrays, time.Since(began))
	if n, err := s.Delete("array*"); n != arrays || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	began = time.Now()
	if _, err := s.Rollback("many", ""); err != nil {
		t.Fatal(err)
	}
	t.Logf("rollback took %v", time.Since(began))
	back, err := s.Arrays(names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, arrays / 2, arrays - 1} {
		if v := values(t, back[i]); v[0] != float32(i) {
			t.Errorf("array %d is %v", i, v)
		}
	}
	s.Delete("*")
	for i := range programs {
		addOne(t, s, Options{}, f32(i+1))
		if i%100 == 99 {
			runtime.GC() // programs that are garbage are given back
		}
	}
	s.Close()
	s = p.open("many")
	within(t, "programs within their bound", func() bool {
		st, err := s.Status()
		return err == nil && st.Programs <= 512
	})
	var all sync.WaitGroup
	var failed [64]error
	for i := range failed {
		all.Go(func() {
			c, err := Config{Socket: p.socket, Space: fmt.Sprint("client", i), NoStart: true}.Open()
			if err != nil {
				failed[i] = err
				return
			}
			defer c.Close()
			a, err := c.Put([]float32{float32(i)}, f32(1), 0)
			for k := 0; k < 20 && err == nil; k++ {
				if err = c.Bind([]string{"x"}, []*Array{a}); err == nil && k%10 == 0 {
					_, err = c.Snapshot("")
				}
			}
			v := make([]float32, 1)
			if err == nil {
				err = a.Values(v)
			}
			if err == nil && v[0] != float32(i) {
				err = fmt.Errorf("client %d reads %v", i, v)
			}
			failed[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		t.Error(err)
	}
}

// TestFaultsFileSize takes the worker's right to write files that are larger
// than a little.
func TestFaultsFileSize(t *testing.T) {
	p := serve(t)
	s := p.open("size")
	bindAll(t, s, map[string][]float32{"w": {1}})
	if _, err := s.Snapshot("good"); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: 4096, Max: 4096}
	if err := unix.Prlimit(p.worker(s), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Skipf("needs to limit the worker's files by prlimit: %v; run it as root, or where the worker is of the same user", err)
	}
	bindAll(t, s, map[string][]float32{"w": make([]float32, 10_000)})
	if _, err := s.Snapshot("bad"); err == nil || !strings.Contains(err.Error(), "file too large") {
		t.Errorf("got %v, want that the file is too large", err)
	}
	if x := addOne(t, s, Options{}, f32(9)); x.From != wire.Compiled { // its file does not fit either
		t.Errorf("program is a %s", x.From)
	}
	l, err := s.Snapshots()
	if err != nil || len(l) != 1 || l[0].Name != "good" {
		t.Errorf("got %+v, %v, want the good snapshot only", l, err)
	}
	files, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/.new-*")
	if len(files) != 0 {
		t.Errorf("%v is left over", files)
	}
}

// TestFaultsDirectories starts sessions whose directories cannot be used.
func TestFaultsDirectories(t *testing.T) {
	needPlugin(t)
	for _, tt := range []struct {
		name string
		do   func(dir string) error // what snapshots should be kept in
		want string
		next string // what the hint begins with
	}{
		{"file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "not a directory", "gaiden session status"},
		{"link", func(dir string) error { return os.Symlink(os.TempDir(), dir) }, "symbolic link", "remove it; then %session stop"},
		{"readable by others", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) }, "has mode 0755", "chmod 700 /"},
	} {
		p := &process{t: t, dir: t.TempDir()}
		p.socket = filepath.Join(p.dir, "run", "session.sock")
		if err := errors.Join(os.MkdirAll(p.dir+"/state/gaiden", 0o700), tt.do(p.dir+"/state/gaiden/snapshots")); err != nil {
			t.Fatal(err)
		}
		p.again()
		s := p.open("x")
		bindAll(t, s, map[string][]float32{"w": {1}})
		if _, err := s.Snapshot(""); !errors.Is(err, wire.Unavailable) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		} else if e := err.(*wire.Error); !strings.HasPrefix(e.Hint(), tt.next) {
			t.Errorf("%s: hint is %q, want %q", tt.name, e.Hint(), tt.next)
		}
		if st, err := s.Status(); err != nil || !strings.Contains(st.Trouble, tt.want) {
			t.Errorf("%s: status says %q, want %q", tt.name, st.Trouble, tt.want)
		}
		if got := look(t, s); got != "w[1]" {
			t.Errorf("%s: got %s", tt.name, got)
		}
	}
	// Programs are not read from where others could have written.
	p := &process{t: t, dir: t.TempDir()}
	p.socket = filepath.Join(p.dir, "run", "session.sock")
	cache := p.dir + "/cache/gaiden/programs"
	if err := errors.Join(os.MkdirAll(cache, 0o755), os.Chmod(cache, 0o755)); err != nil {
		t.Fatal(err)
	}
	p.again()
	if st, err := p.open("x").Status(); err != nil || !strings.Contains(st.Cache.Off, "has mode 0755: want 0700; chmod 700 "+cache+", then %session stop") {
		t.Errorf("cache readable by others: status says %q, %v", st.Cache.Off, err)
	}
	// A link is no socket, wherever it leads.
	for name, to := range map[string]string{"the session's own": p.socket, "nothing": filepath.Join(p.dir, "none"), "a file": "/etc/hostname"} {
		link := filepath.Join(t.TempDir(), "session.sock")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		s, err := Config{Socket: link}.Open()
		if !errors.Is(err, wire.Denied) || !strings.Contains(err.Error(), "symbolic link to "+to) {
			t.Errorf("socket that is a link to %s: got %v, want a refusal that names it", name, err)
		}
		if err == nil {
			s.Close()
		}
	}
	// The socket's directory is not ours alone, or it is a link.
	for _, tt := range []struct {
		name string
		do   func(dir string) error
		want string
	}{
		{"link", func(dir string) error { return os.Symlink(os.TempDir(), dir) }, "symbolic link"},
		{"readable by others", func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) }, "has mode 0755"},
	} {
		p := &process{t: t, dir: t.TempDir()}
		p.socket = filepath.Join(p.dir, "run", "session.sock")
		if err := tt.do(p.dir + "/run"); err != nil {
			t.Fatal(err)
		}
		if line := p.start("GAIDEN_SOCKET=" + p.socket); !strings.Contains(line, tt.want) {
			t.Errorf("socket in a directory that is a %s: got %q, want %q", tt.name, line, tt.want)
		}
	}
}
