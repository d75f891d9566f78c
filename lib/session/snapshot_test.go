package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// stop ends the supervisor as a user does, and waits for it.
func (p *process) stop() {
	p.t.Helper()
	p.Process.Signal(syscall.SIGTERM)
	p.Wait()
}

// kill ends the supervisor, and so the worker, as a crash does.
func (p *process) kill() {
	p.t.Helper()
	p.Process.Kill()
	p.Wait()
}

// programFiles are the programs on disk.
func (p *process) programFiles() []string {
	l, _ := filepath.Glob(p.dir + "/cache/gaiden/programs/*.program*")
	return l
}

// within tries until ok, for at most 20 seconds.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("20 seconds have passed: want %s", what)
		}
	}
}

// bindAll puts arrays under names.
func bindAll(t *testing.T, s *Session, arrays map[string][]float32) {
	t.Helper()
	var names []string
	var l []*Array
	for n, v := range arrays {
		names, l = append(names, n), append(l, put(t, s, v...))
	}
	if err := s.Bind(names, l); err != nil {
		t.Fatal(err)
	}
}

// look is the values of the space's arrays.
func look(t *testing.T, s *Session) string {
	t.Helper()
	l, err := s.List("")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, i := range l {
		a, err := s.Array(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s%v ", i.Name, values(t, a))
	}
	return strings.TrimSpace(b.String())
}

func TestSnapshots(t *testing.T) {
	p := serve(t)
	s := p.open("snap.ipynb")
	bindAll(t, s, map[string][]float32{"data": make([]float32, 1<<20), "w": {1, 2}, "b": {3}})
	first, err := s.Snapshot("first")
	if err != nil {
		t.Fatal(err)
	}
	if first.Arrays != 3 || first.Bytes != 4<<20+12 || first.Written != first.Bytes {
		t.Errorf("got %+v, want 3 arrays, all written", first)
	}
	if _, err := s.Delete("data"); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"w": {1, 5}, "c": {9}})
	second, err := s.Snapshot("")
	if err != nil {
		t.Fatal(err)
	}
	if second.Arrays != 3 || second.Written != 12 {
		t.Errorf("got %+v, want 3 arrays, of which 12 bytes are new", second)
	}
	if again, err := s.Snapshot(""); err != nil || again.Number != second.Number {
		t.Errorf("nothing has changed: got %+v, %v", again, err)
	}
	d, err := s.Diff("first", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", d); len(d) != 3 || d[0].Change != "added" || d[1].Change != "removed" || d[2].Changed != 1 || d[2].Largest != 3 {
		t.Errorf("got %s, want c added, data removed, w changed by 3 in 1 of 2", got)
	}
	if info, err := s.Rollback("first", ""); err != nil || info.Number != first.Number {
		t.Fatal(info, err)
	}
	if got := look(t, s); !strings.HasPrefix(got, "b[3] data[0 0") || !strings.HasSuffix(got, "w[1 2]") {
		t.Errorf("after rollback: got %.20s…", got)
	}
	if d, err := s.Diff("first", "", ""); err != nil || len(d) != 0 {
		t.Errorf("after rollback: got differences %+v, %v", d, err)
	}
	if _, err := s.Rollback(fmt.Sprint(second.Number), ""); err != nil {
		t.Fatal(err)
	}
	if got := look(t, s); got != "b[3] c[9] w[1 5]" {
		t.Errorf("rollback of the rollback: got %s", got)
	}
	if info, err := s.Rollback("first", "w"); err != nil || info.Arrays != 1 {
		t.Fatalf("rollback of w: got %+v, %v, want 1 array", info, err)
	}
	if got := look(t, s); got != "b[3] c[9] w[1 2]" {
		t.Errorf("rollback of w: got %s", got)
	}
	for _, tt := range []struct {
		name string
		do   func() error
		want error
		text string
	}{
		{"no such name", func() error { _, err := s.Rollback("frist", ""); return err }, wire.NotFound, "frist"},
		{"a number", func() error { _, err := s.Snapshot("12"); return err }, wire.Invalid, "is a number"},
		{"a slip for help", func() error { _, err := s.Snapshot("?"); return err }, wire.Invalid, "has no letter"},
		{"only dots", func() error { _, err := s.Snapshot(".."); return err }, wire.Invalid, "has no letter"},
		{"an option", func() error { _, err := s.Snapshot("-f"); return err }, wire.Invalid, "begins with -"},
		{"the newest", func() error { _, err := s.Snapshot("last"); return err }, wire.Invalid, "stands for the newest"},
		{"control character", func() error { _, err := s.Snapshot("a\nb"); return err }, wire.Invalid, "snapshot name \"a\\nb\" has a control character"},
		{"long", func() error { _, err := s.Snapshot(strings.Repeat("x", 10<<10)); return err }, wire.Invalid, "limit"},
		{"no such prefix", func() error { _, err := s.Rollback("first", "zzz"); return err }, wire.NotFound, "zzz"},
		{"discard nothing", func() error { return s.Discard() }, wire.Invalid, "no snapshot"},
		{"quota 0", func() error { return s.Quota(0) }, wire.Invalid, "nothing would fit"},
	} {
		if err := tt.do(); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %v with %q", tt.name, err, tt.want, tt.text)
		}
	}
	// Automatic snapshots are bounded; what a later one needs of them stays.
	for i := range 8 {
		bindAll(t, s, map[string][]float32{"w": {float32(i)}})
		if _, err := s.Snapshot(""); err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.Snapshots()
	if err != nil || len(l) != 4 || l[0].Name != "first" {
		t.Errorf("got %+v, %v, want the named one and 3 automatic ones", l, err)
	}
	if err := s.Discard("first"); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Diff("last", "", ""); err != nil || len(d) != 0 {
		t.Errorf("from the last snapshot: got differences %+v, %v", d, err)
	}
	if _, err := s.Rollback("", ""); err != nil {
		t.Fatal(err)
	}
	if got := look(t, s); got != "b[3] c[9] w[7]" {
		t.Errorf("got %s", got)
	}
	files, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/*.safetensors")
	if len(files) > 6 {
		t.Errorf("%d files are left: %v", len(files), files)
	}
}

func TestExport(t *testing.T) {
	p := serve(t)
	s := p.open("export")
	bindAll(t, s, map[string][]float32{"net/w": {1, 2}, "net/b": {3}, "other": {4}})
	if _, err := s.Snapshot("a"); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"net/w": {8, 9}})
	for _, tt := range []struct{ snapshot, want string }{{"", "copy/net/b[3] copy/net/w[8 9]"}, {"a", "copy/net/b[3] copy/net/w[1 2]"}} {
		path := filepath.Join(t.TempDir(), "net.safetensors")
		if n, err := s.Export(path, tt.snapshot, "net/", map[string]string{"epoch": "3"}); n != 2 || err != nil {
			t.Fatalf("exported %d arrays, %v: want 2", n, err)
		}
		o := p.open("import" + tt.snapshot)
		if l, err := o.Import(path, "copy/"); err != nil || len(l) != 2 {
			t.Fatalf("imported %+v, %v: want 2 arrays", l, err)
		}
		if got := look(t, o); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		b, _ := os.ReadFile(path)
		b[len(b)-1] ^= 1
		os.WriteFile(path, b, 0o600)
		if _, err := o.Import(path, "bad/"); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("import of a changed file: got %v", err)
		}
		if got := look(t, o); got != tt.want {
			t.Errorf("after an import that failed: got %s, want %s", got, tt.want)
		}
	}
	if _, err := s.Export(filepath.Join(t.TempDir(), "x"), "", "none/", nil); !errors.Is(err, wire.NotFound) {
		t.Errorf("export of nothing: got %v", err)
	}
	if _, err := p.open("empty").Export(filepath.Join(t.TempDir(), "x"), "", "", nil); !errors.Is(err, wire.NotFound) || !strings.Contains(err.Error(), `"empty" has no arrays`) {
		t.Errorf("export of nothing: got %v", err)
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere", "x")
	if _, err := s.Export(nowhere, "", "", nil); err == nil || !strings.Contains(err.Error(), "write "+nowhere+": no such file") {
		t.Errorf("export to a directory that is not there: got %v", err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/kept", nil, 0o600), os.Chmod(dir+"/kept", 0o664), os.Symlink("kept", dir+"/link"), syscall.Mkfifo(dir+"/pipe", 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, snapshot := range []string{"", "a"} {
		if _, err := s.Export(dir+"/link", snapshot, "", nil); err != nil {
			t.Errorf("export to a link: %v", err)
		}
		if info, err := os.Lstat(dir + "/kept"); err != nil || info.Mode() != 0o664 || info.Size() == 0 {
			t.Errorf("export to a link: got %v, %v; want what it leads to written, with its mode", info, err)
		}
		if _, err := s.Export(dir+"/pipe", snapshot, "", nil); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "got a named pipe") {
			t.Errorf("export to a pipe: got %v", err)
		}
	}
	if _, err := s.Import("/no/such/file", ""); !errors.Is(err, wire.Invalid) {
		t.Errorf("import of nothing: got %v", err)
	}
}

// TestRollbackLasts holds that a crash right after a rollback does not take it back.
func TestRollbackLasts(t *testing.T) {
	p := serve(t)
	s := p.open("lasts")
	for name, prefix := range map[string]string{"all": "", "a part": "w"} {
		bindAll(t, s, map[string][]float32{"w": {1}, "v": {1}})
		if _, err := s.Snapshot("one"); err != nil {
			t.Fatal(err)
		}
		bindAll(t, s, map[string][]float32{"w": {2}, "v": {1}})
		if _, err := s.Rollback("one", prefix); err != nil {
			t.Fatal(err)
		}
		syscall.Kill(p.worker(s), syscall.SIGKILL)
		s.Wait()
		s = p.reopen("lasts")
		a, err := s.Array("w")
		if err != nil {
			t.Fatal(err)
		}
		if got := values(t, a); got[0] != 1 {
			t.Errorf("%s: got %v after a rollback and a crash, want 1", name, got)
		}
	}
}

// TestRecovery ends processes in every way and looks what comes back.
func TestRecovery(t *testing.T) {
	tests := []struct {
		name string
		end  func(p *process, s *Session)
	}{
		{"worker killed", func(p *process, s *Session) { syscall.Kill(p.worker(s), syscall.SIGKILL); s.Wait() }},
		{"supervisor killed", func(p *process, s *Session) { p.kill(); p.again() }},
		{"stopped", func(p *process, s *Session) { p.stop(); p.again() }},
		{"stopped on request", func(p *process, s *Session) { s.Ask(wire.AskBody{Verb: wire.Stop}); p.Wait(); p.again() }},
	}
	p := serve(t)
	for i, tt := range tests {
		space := fmt.Sprint("space ", i)
		s := p.open(space)
		bindAll(t, s, map[string][]float32{"w": {float32(i), 2}, "b": {3}})
		if _, err := s.Snapshot(""); err != nil {
			t.Fatal(err)
		}
		bindAll(t, s, map[string][]float32{"late": {1}})
		time.Sleep(1100 * time.Millisecond) // the name is written down, a snapshot is not due
		tt.end(p, s)
		s = p.reopen(space)
		want, note := fmt.Sprintf("b[3] w[%d 2]", i), "2 arrays are back"
		if strings.HasPrefix(tt.name, "stopped") {
			want, note = fmt.Sprintf("b[3] late[1] w[%d 2]", i), "3 arrays are back"
		} else if !strings.Contains(s.Welcome().Note, "lost, because no snapshot has them: late") {
			t.Errorf("%s: got note %q, want the name of what is lost", tt.name, s.Welcome().Note)
		}
		if got := look(t, s); got != want {
			t.Errorf("%s: got %s, want %s", tt.name, got, want)
		}
		if !strings.Contains(s.Welcome().Note, note) {
			t.Errorf("%s: got note %q, want %q", tt.name, s.Welcome().Note, note)
		}
	}
}

func TestIdleSnapshot(t *testing.T) {
	p := serve(t)
	s := p.open("idle")
	bindAll(t, s, map[string][]float32{"w": {1}})
	within(t, "a snapshot without being asked", func() bool {
		l, err := s.Snapshots()
		return err == nil && len(l) == 1 && l[0].Arrays == 1
	})
	if _, err := s.Delete("w"); err != nil {
		t.Fatal(err)
	}
	within(t, "a snapshot of nothing", func() bool {
		l, err := s.Snapshots()
		return err == nil && len(l) == 2 && l[1].Arrays == 0
	})
	p.kill()
	p.again()
	if got := look(t, p.open("idle")); got != "" {
		t.Errorf("a deleted array is back: %s", got)
	}
}

func TestDamagedSnapshot(t *testing.T) {
	p := serve(t)
	s := p.open("damaged")
	for i := range 3 {
		bindAll(t, s, map[string][]float32{"w": {float32(i)}})
		if _, err := s.Snapshot(""); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	files, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/*.safetensors")
	if len(files) != 3 {
		t.Fatalf("got %d files, want 3", len(files))
	}
	b, _ := os.ReadFile(files[2])
	b[len(b)-1] ^= 1
	os.WriteFile(files[2], b, 0o600)
	os.Truncate(files[1], 50)
	p.again()
	s = p.reopen("damaged")
	if got := look(t, s); got != "w[0]" {
		t.Errorf("got %s, want the snapshot before the damaged ones", got)
	}
	if note := s.Welcome().Note; !strings.Contains(note, "snapshot 3 is damaged") || !strings.Contains(note, "snapshot 2 is damaged") {
		t.Errorf("got note %q", note)
	}
	if _, err := s.Rollback("3", ""); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("rollback to a damaged snapshot: got %v", err)
	}
}

// TestSnapshotWhileTraining takes snapshots while another client trains with
// donation: each has one state, and the training is not disturbed.
func TestSnapshotWhileTraining(t *testing.T) {
	p := serve(t)
	s := p.open("train")
	n := 250_000
	zero := make([]float32, n)
	bindAll(t, s, map[string][]float32{"a": zero, "b": zero})
	x := addOne(t, s, Options{Donate: []bool{true, true}}, f32(n), f32(n))
	done := make(chan error, 1)
	other := p.open("train")
	l, err := s.Arrays("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan struct{})
	steps := 0
	go func() {
		for {
			select {
			case <-quit:
				done <- s.Wait()
				return
			default:
			}
			var err error
			if l, err = x.Run(Call{Inputs: l, Names: []string{"a", "b"}}); err != nil {
				done <- err
				return
			}
			steps++
		}
	}()
	last := float32(-1)
	for range 10 {
		if _, err := other.Snapshot("now"); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x")
		if _, err := other.Export(path, "now", "", nil); err != nil {
			t.Fatal(err)
		}
		o := p.open("copy")
		if _, err := o.Import(path, ""); err != nil {
			t.Fatal(err)
		}
		pair, err := o.Arrays("a", "b")
		if err != nil {
			t.Fatal(err)
		}
		v, w := values(t, pair[0]), values(t, pair[1])
		for i := range v {
			if v[i] != v[0] || w[i] != v[0] {
				t.Fatalf("a snapshot has %v and %v", v[i], w[i])
			}
		}
		if v[0] <= last {
			t.Errorf("snapshot of step %v after that of step %v", v[0], last)
		}
		last = v[0]
		o.Close()
	}
	close(quit)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := values(t, l[0]); got[0] != float32(steps) {
		t.Errorf("got %v after %d steps", got[0], steps)
	}
	if st, _ := s.Status(); st.Bytes > int64(4*n*6) {
		t.Errorf("%d bytes are alive: snapshots leak", st.Bytes)
	}
}

// TestSave holds that a good moment for a snapshot makes one only where the last was
// cheap against the time since.
func TestSave(t *testing.T) {
	p := serve(t)
	s := p.open("save")
	large := make([]float32, 8<<20)
	for i, want := range []bool{true, false} {
		large[0] = float32(i)
		bindAll(t, s, map[string][]float32{"w": large})
		before, err := s.Snapshots()
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Save()
		if err != nil || made != want {
			t.Errorf("moment %d: got %t, %v, want %t", i, made, err, want)
		}
		after, err := s.Snapshots()
		if err != nil || len(after)-len(before) != i^1 {
			t.Errorf("moment %d: got %d snapshots, %v, and %d before", i, len(after), err, len(before))
		}
	}
	within(t, "what nobody works with is saved all the same", func() bool {
		l, err := s.Snapshots()
		return err == nil && len(l) == 2
	})
}
