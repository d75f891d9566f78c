package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// lockedCell is a process that locks names and then hangs.
func lockedCell(socket string) error {
	s, err := Config{Socket: socket, Space: "lock", Client: "cell 7"}.Open()
	if err != nil {
		return err
	}
	if _, err := s.Lock(context.Background(), "net/", "trains", 0); err != nil {
		return err
	}
	fmt.Println("locked")
	select {}
}

// TestLock holds that while names are locked nobody else gives them another meaning, in
// any way there is, that the refusal says who has them, and that reading goes on.
func TestLock(t *testing.T) {
	p := serve(t)
	a, b := p.open("lock"), p.open("lock")
	bindAll(t, a, map[string][]float32{"net/w": {1}, "free": {1}})
	if _, err := a.Snapshot("before"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.dir, "x.safetensors")
	if _, err := a.Export(file, "", "", nil); err != nil {
		t.Fatal(err)
	}
	program := addOne(t, b, Options{}, f32(1))
	unlock, err := a.Lock(context.Background(), "net/", "trains", 0)
	if err != nil {
		t.Fatal(err)
	}
	run := func(s *Session, x *Program, name string) error {
		w, err := s.Array("net/w")
		if err != nil {
			return err
		}
		if _, err := x.Run(Call{Inputs: []*Array{w}, Names: []string{name}}); err != nil {
			return err
		}
		return s.Wait()
	}
	changes := map[string]func() error{
		"bind":          func() error { return b.Bind([]string{"free", "net/w"}, []*Array{put(t, b, 2), put(t, b, 2)}) },
		"bind new":      func() error { return b.Bind([]string{"net/v"}, []*Array{put(t, b, 2)}) },
		"execute":       func() error { return run(b, program, "net/w") },
		"delete":        func() error { _, err := b.Delete("net/w"); return err },
		"delete prefix": func() error { _, err := b.Delete("n*"); return err },
		"import":        func() error { _, err := b.Import(file, ""); return err },
		"rollback":      func() error { _, err := b.Rollback("before", ""); return err },
		"rollback part": func() error { _, err := b.Rollback("before", "net/w"); return err },
		"undo":          func() error { _, err := b.Undo(); return err },
		"job": func() error {
			_, err := b.StartJob(Job{Name: "job", Steps: []JobStep{{Program: program, Inputs: Named("net/w"), Names: []string{"net/w"}}}})
			return err
		},
		"lock":                   func() error { _, err := b.Lock(context.Background(), "net/", "", 0); return err },
		"lock of more":           func() error { _, err := b.Lock(context.Background(), "", "", 0); return err },
		"lock of less":           func() error { _, err := b.Lock(context.Background(), "net/w", "", 0); return err },
		"lock by the same again": func() error { _, err := a.Lock(context.Background(), "net/", "", 0); return err },
	}
	before := look(t, a)
	for name, change := range changes {
		err := change()
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.Busy || !strings.Contains(e.Text, fmt.Sprintf("(process %d) trains it since ", os.Getpid())) || e.Next == "" {
			t.Errorf("%s: got %v, want that it is refused, who has it, and since when", name, err)
		}
		if got := look(t, b); got != before {
			t.Errorf("%s: arrays are %s, want %s", name, got, before)
		}
	}
	// Others are free, and so is the owner.
	if err := b.Bind([]string{"free", "netto"}, []*Array{put(t, b, 3), put(t, b, 3)}); err != nil {
		t.Error(err)
	}
	if err := run(a, addOne(t, a, Options{}, f32(1)), "net/w"); err != nil {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := run(b, program, "net/w"); err != nil {
		t.Error(err)
	}
	if got, want := look(t, a), "free[3] net/w[3] netto[3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestLockReset: a reset takes away what somebody works with: nothing of before comes back
// under the names that it cleared, and whoever would bring it back learns why.
func TestLockReset(t *testing.T) {
	p := serve(t)
	a, b := p.open("lock"), p.open("lock")
	bindAll(t, a, map[string][]float32{"net/w": {1}, "free": {1}})
	program := addOne(t, a, Options{}, f32(1))
	unlock, err := a.Lock(context.Background(), "net/", "trains", 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := a.Array("net/w")
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.Run(Call{Inputs: []*Array{w}, Names: []string{"net/w"}})
	if err == nil {
		err = a.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(b, wire.AskBody{Verb: wire.Reset}); err != nil {
		t.Fatal(err)
	}
	if _, err = program.Run(Call{Inputs: out, Names: []string{"net/w"}}); err == nil {
		err = a.Wait()
	}
	if !errors.Is(err, wire.Gone) || !strings.Contains(err.Error(), fmt.Sprintf("(process %d) has reset the session at ", os.Getpid())) {
		t.Errorf("got %v, want that the session was reset, by whom, and when", err)
	}
	if got := look(t, b); got != "" {
		t.Errorf("after the reset there is %s, want nothing", got)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if _, err = a.Lock(context.Background(), "net/", "trains", 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Bind([]string{"net/w"}, []*Array{put(t, a, 5)}); err != nil {
		t.Errorf("who begins again: %v", err)
	}
	if got := look(t, b); got != "net/w[5]" {
		t.Errorf("got %s, want net/w[5]", got)
	}
}

// TestLockEnds: a lock ends with its client, however that ends.
func TestLockEnds(t *testing.T) {
	p := serve(t)
	s := p.open("lock")
	cmd := exec.Command("/proc/self/exe", p.socket)
	cmd.Env = append(os.Environ(), "GAIDEN_TEST_ROLE=locked")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(context.Background(), "net/", "", 0); !errors.Is(err, wire.Busy) || !strings.Contains(err.Error(), fmt.Sprintf("cell 7 (process %d) trains it", cmd.Process.Pid)) {
		t.Errorf("got %v, want that cell 7 has it", err)
	}
	cmd.Process.Signal(syscall.SIGKILL)
	if _, err := s.Lock(context.Background(), "net/", "", 20*time.Second); err != nil {
		t.Errorf("after its owner was killed: %v", err)
	}
}

// TestLockPatience: who waits for a lock waits no longer than its context, and learns what
// the other one is for.
func TestLockPatience(t *testing.T) {
	p := serve(t)
	a, b := p.open("lock"), p.open("lock")
	if _, err := a.Lock(context.Background(), "net/", "makes", 0); err != nil {
		t.Fatal(err)
	}
	var e *wire.Error
	if _, err := b.Lock(context.Background(), "net/", "trains", 0); !errors.As(err, &e) || e.Code != wire.Busy || e.Purpose != "makes" {
		t.Errorf("got %#v, want that the other lock makes the net", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.Lock(ctx, "net/", "trains", time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("got %v after %v, want the context's error at its end", err, time.Since(began))
	}
}

// TestJobsTogether: two jobs of other names that change one array do not run at the same
// time, and no client binds it meanwhile.
func TestJobsTogether(t *testing.T) {
	p := serve(t)
	s := p.open("together")
	j, other := counting(t, s, 1000, 5, 1), counting(t, s, 1000, 5, 1)
	other.Name = "other"
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PauseJob("count"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartJob(other); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "job count, which is paused, needs") {
		t.Errorf("got %v, want that the other job needs its arrays", err)
	}
	if _, err := s.Lock(context.Background(), "step", "trains", 0); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "job count, which is paused, needs") {
		t.Errorf("lock: got %v, want that the job needs it", err)
	}
	if _, err := s.StopJob("count"); err != nil {
		t.Fatal(err)
	}
	follow(t, s, "count")
	if _, err := s.Lock(context.Background(), "step", "trains", 0); err != nil {
		t.Errorf("lock after the job: %v", err)
	}
}

// TestCompareAndBind: what was computed from old arrays does not replace newer ones.
func TestCompareAndBind(t *testing.T) {
	p := serve(t)
	a, b := p.open("replace"), p.open("replace")
	bindAll(t, a, map[string][]float32{"v": {1}, "w": {1}})
	names := []string{"v", "w"}
	was, err := a.Arrays(names...)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.CompareAndBind(names, was, []*Array{put(t, a, 2), put(t, a, 2)}); err != nil {
		t.Fatal(err)
	}
	if was, err = a.Arrays(names...); err != nil {
		t.Fatal(err)
	}
	bindAll(t, b, map[string][]float32{"w": {5}})
	if err := a.CompareAndBind(names, was, []*Array{put(t, a, 3), put(t, a, 3)}); !errors.Is(err, wire.Busy) || !strings.Contains(err.Error(), "array w has been replaced") {
		t.Errorf("got %v, want that w has been replaced", err)
	}
	if got := look(t, a); got != "v[2] w[5]" {
		t.Errorf("got %s, want v[2] w[5]", got)
	}
	if _, err := b.Delete("w"); err != nil {
		t.Fatal(err)
	}
	if err := a.CompareAndBind(names, was, []*Array{put(t, a, 3), put(t, a, 3)}); !errors.Is(err, wire.Busy) {
		t.Errorf("got %v, want that w has been replaced", err)
	}
	if err := a.CompareAndBind(names, was[:1], was); !errors.Is(err, wire.Invalid) {
		t.Errorf("got %v, want that counts differ", err)
	}
}

// ask is an Ask of which only the error counts.
func ask(s *Session, a wire.AskBody) error {
	_, err := s.Ask(a)
	return err
}

// TestJobUnderLock: a job that the owner of a lock starts may change what is locked.
func TestJobUnderLock(t *testing.T) {
	p := serve(t)
	s := p.open("job")
	j := counting(t, s, 3, 2, 1)
	unlock, err := s.Lock(context.Background(), "", "trains", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	info, l := follow(t, s, "count")
	if info.State != wire.JobDone {
		t.Errorf("the job is %s (%v), want done", info.State, info.Error)
	}
	checkCount(t, l, 3, 2)
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
