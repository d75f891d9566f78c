package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// counting is a job of that many turns: a turn has an order that is new, and
// chunks that add 1 to the weights and report them. rate slows it down: a chunk
// does so many rounds of work.
func counting(t *testing.T, s *Session, turns, chunks, rounds int) Job {
	t.Helper()
	bindAll(t, s, map[string][]float32{"w": make([]float32, 1000), "order": {0}, "step": {0}})
	perm := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{MulScalar(in[0], 10)} }, f32(1))
	chunk := compile(t, s, Options{Donate: []bool{true, true, false}}, func(in []*Node) []*Node {
		w := in[0]
		for range rounds {
			w = Sqrt(Mul(w, w))
		}
		w = Add(w, OnesLike(w))
		step := AddScalar(in[1], 1)
		loss := Concatenate([]*Node{step, Reshape(ReduceAllMax(w), 1), in[2]}, 0)
		return []*Node{w, step, loss}
	}, f32(1000), f32(1), f32(1))
	return Job{Name: "count", Turns: turns, Steps: []JobStep{
		{Program: perm, Inputs: Named("step"), Names: []string{"order"}},
		{Program: chunk, Repeat: chunks, Inputs: Named("w", "step", "order"), Names: []string{"w", "step", ""}, Read: []wire.Read{{Output: 2, Name: "loss"}}},
	}}
}

// follow waits for the job's end and returns its log.
func follow(t *testing.T, s *Session, name string) (wire.JobInfo, []wire.JobEntry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var last wire.JobInfo
	var all []wire.JobEntry
	if err := s.FollowJob(ctx, name, 0, func(i wire.JobInfo, l []wire.JobEntry) error {
		last, all = i, append(all, l...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return last, all
}

// checkCount holds that the log of a counting job has each step once, in order.
func checkCount(t *testing.T, l []wire.JobEntry, turns, chunks int) {
	t.Helper()
	if len(l) != turns*chunks {
		t.Errorf("log has %d entries, want %d", len(l), turns*chunks)
	}
	for i, e := range l {
		want := fmt.Sprint(wire.Floats{float64(i + 1), float64(i + 1), float64(i / chunks * chunks * 10)})
		if got := fmt.Sprint(e.Values); got != want || e.Number != i || e.Place != (wire.Place{Turn: i / chunks, Step: 1, Repeat: i % chunks}) {
			t.Fatalf("entry %d: got %s at %+v, want %s", i, got, e.Place, want)
		}
	}
}

// TestJobAlone: nobody gives other arrays the names that a job takes.
func TestJobAlone(t *testing.T) {
	p := serve(t)
	s := p.open("alone")
	if _, err := s.StartJob(counting(t, s, 1000, 5, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PauseJob("count"); err != nil {
		t.Fatal(err)
	}
	path, before := filepath.Join(p.dir, "x.safetensors"), look(t, s)
	if _, err := s.Export(path, "", "", nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"import": func() error { _, err := s.Import(path, ""); return err },
		"bind":   func() error { return s.Bind([]string{"free", "step"}, []*Array{put(t, s, 1), put(t, s, 2)}) },
	} {
		err := change()
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.Invalid || !strings.Contains(e.Text, "job count, which is paused, needs the array") || e.Hint() == "" {
			t.Errorf("%s: got %v, want that the job needs it", name, err)
		}
		if got := look(t, s); got != before {
			t.Errorf("%s: arrays are %.60s, want %.60s", name, got, before)
		}
	}
	if l, err := s.Import(path, "copy/"); err != nil || len(l) == 0 {
		t.Errorf("import of other names: %v, %v", l, err)
	}
}

// TestJobDamaged: a job whose file cannot be read is not gone without a word.
func TestJobDamaged(t *testing.T) {
	p := serve(t)
	s := p.open("torn")
	if _, err := s.StartJob(counting(t, s, 1000, 5, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PauseJob("count"); err != nil {
		t.Fatal(err)
	}
	p.kill()
	files, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/job-*.json")
	if len(files) != 1 {
		t.Fatalf("got the files %v, want one", files)
	}
	if err := os.Truncate(files[0], 20); err != nil {
		t.Fatal(err)
	}
	p.again()
	s = p.open("torn")
	if note := s.Welcome().Note; !strings.Contains(note, "arrays are back") || !strings.Contains(note, "job count is lost: its file is damaged, and is now "+files[0]+".damaged") {
		t.Errorf("told %q, want that the job is lost", note)
	}
	if l, err := s.Jobs(); err != nil || len(l) != 0 {
		t.Errorf("got jobs %v, %v, want none", l, err)
	}
	if _, err := s.StartJob(counting(t, s, 1, 3, 1)); err != nil {
		t.Errorf("one of the same name: %v", err)
	}
}

func TestJob(t *testing.T) {
	p := serve(t)
	s := p.open("job")
	j := counting(t, s, 4, 5, 1)
	info, err := s.StartJob(j)
	if err != nil {
		t.Fatal(err)
	}
	if info.State != wire.JobRuns || info.Turns != 4 {
		t.Errorf("got %+v", info)
	}
	s.Close() // the job goes on
	s = p.open("job")
	info, l := follow(t, s, "count")
	if info.State != wire.JobDone || info.Error != nil || info.Entries != 20 {
		t.Errorf("got %+v, want done", info)
	}
	checkCount(t, l, 4, 5)
	if got := look(t, s); !strings.HasPrefix(got, "order[150] step[20] w[20 20 ") {
		t.Errorf("got %.60s", got)
	}
	if sn, err := s.Snapshots(); err != nil || len(sn) == 0 {
		t.Errorf("got %d snapshots, %v: want one for each turn, the newest of them", len(sn), err)
	}
	if _, err := s.StopJob("count"); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("stop of a job that has ended: got %v", err)
	}
	if _, err := s.PauseJob("cuont"); !errors.Is(err, wire.NotFound) {
		t.Errorf("no such job: got %v", err)
	}
	// The same again under the same name: its log is new.
	if _, err := s.StartJob(counting(t, s, 1, 3, 1)); err != nil {
		t.Fatal(err)
	}
	_, l = follow(t, s, "count")
	checkCount(t, l, 1, 3)
	if err := s.ForgetJob("count"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Jobs(); err != nil || len(l) != 0 {
		t.Errorf("got %+v, %v after it was forgotten", l, err)
	}
}

func TestJobPause(t *testing.T) {
	p := serve(t)
	s := p.open("pause")
	j := counting(t, s, 100_000, 5, 1)
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartJob(j); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second job of that name: got %v", err)
	}
	if _, err := s.Rollback("", ""); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "job count") {
		t.Errorf("rollback below a job: got %v", err)
	}
	within(t, "some entries", func() bool { l, err := s.Jobs(); return err == nil && l[0].Entries > 10 })
	info, err := s.PauseJob("count")
	if err != nil || info.State != wire.JobPaused {
		t.Fatal(info, err)
	}
	a, err := s.Array("w") // can be read while the job exists
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, a)[0]; int(got) != info.Entries {
		t.Errorf("w is %v after %d chunks", got, info.Entries)
	}
	// A paused job stays so through a crash, and goes on from where it was.
	p.kill()
	p.again()
	s = p.reopen("pause")
	l, err := s.Jobs()
	if err != nil || len(l) != 1 || l[0].State != wire.JobPaused {
		t.Fatalf("after a crash: got %+v, %v", l, err)
	}
	if info, err = s.ResumeJob("count"); err != nil || info.State != wire.JobRuns {
		t.Fatal(info, err)
	}
	before := info.Entries
	within(t, "more entries", func() bool { l, err := s.Jobs(); return err == nil && l[0].Entries > before+10 })
	if info, err = s.StopJob("count"); err != nil || info.State != wire.JobStopped {
		t.Fatal(info, err)
	}
	if a, err = s.Array("w"); err != nil {
		t.Fatal(err)
	}
	if got := values(t, a)[0]; int(got) != info.Entries {
		t.Errorf("w is %v after %d chunks", got, info.Entries)
	}
}

// TestFollowSurvives: who follows a job sees each entry once, also when the
// worker dies meanwhile.
func TestFollowSurvives(t *testing.T) {
	p := serve(t)
	s := p.open("follows")
	if _, err := s.StartJob(counting(t, s, 100, 5, 20)); err != nil {
		t.Fatal(err)
	}
	other := p.open("follows")
	killed := false
	var l []wire.JobEntry
	var last wire.JobInfo
	err := other.FollowJob(t.Context(), "count", 0, func(i wire.JobInfo, new []wire.JobEntry) error {
		last, l = i, append(l, new...)
		if !killed && i.Place.Turn > 5 {
			killed = true
			syscall.Kill(p.worker(s), syscall.SIGKILL)
		}
		return nil
	})
	if err != nil || !killed || last.State != wire.JobDone {
		t.Fatalf("got %v, killed %v, %+v; want that it is followed to its end", err, killed, last)
	}
	checkCount(t, l, 100, 5)
}

// TestJobSurvives kills workers and supervisors under a job. Its log has each
// step once all the same, as if nothing had happened.
func TestJobSurvives(t *testing.T) {
	p := serve(t)
	s := p.open("survives")
	turns := 2000 // more than six lives of a worker do on a busy machine
	if _, err := s.StartJob(counting(t, s, turns, 5, 20)); err != nil {
		t.Fatal(err)
	}
	kills := 6
	if testing.Short() {
		kills = 3
	}
	deaths := 0
	for i := range kills {
		at := -1
		within(t, "progress", func() bool {
			l, err := s.Jobs()
			if err != nil || len(l) == 0 {
				s = p.reopen("survives")
				return false
			}
			if at < 0 {
				at = l[0].Place.Turn
			}
			return l[0].State.Over() || l[0].Place.Turn >= at+2
		})
		if l, _ := s.Jobs(); len(l) == 1 && l[0].State.Over() {
			break
		}
		deaths++
		switch i % 3 {
		case 0:
			syscall.Kill(p.worker(s), syscall.SIGKILL)
			s.Wait()
		case 1:
			p.kill()
			p.again()
		case 2:
			p.stop()
			p.again()
		}
		s = p.reopen("survives")
	}
	if deaths < kills {
		t.Errorf("the job has ended after %d deaths: want %d", deaths, kills)
	}
	info, l := follow(t, s, "count")
	if info.State != wire.JobDone {
		t.Errorf("got %+v", info)
	}
	checkCount(t, l, turns, 5)
	a, err := s.Array("w")
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, a)[0]; int(got) != turns*5 {
		t.Errorf("w is %v after %d chunks", got, turns*5)
	}
}

// TestFairTurns holds that a short program waits for 100 ms of another client's
// long ones, however many that one has sent.
func TestFairTurns(t *testing.T) {
	p := serve(t)
	long, short := p.open("long"), p.open("short")
	n := 700
	x := compile(t, long, Options{Donate: []bool{true}}, func(in []*Node) []*Node {
		y := in[0]
		for range 4 {
			y = MulScalar(MatMul(y, y), 1/float64(n))
		}
		return []*Node{y}
	}, f32(n, n))
	z := addOne(t, short, Options{}, f32(4))
	ones := make([]float32, n*n)
	for i := range ones {
		ones[i] = 1
	}
	a, err := long.Put(ones, f32(n, n), 0)
	if err != nil {
		t.Fatal(err)
	}
	out := []*Array{a}
	run := func(k int) time.Duration {
		began := time.Now()
		for range k {
			if out, err = x.Run(Call{Inputs: out}); err != nil {
				t.Fatal(err)
			}
		}
		if err := long.Wait(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began) / time.Duration(k)
	}
	run(3)
	each := run(5)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
			}
			var err error
			for range 100 {
				if out, err = x.Run(Call{Inputs: out}); err != nil {
					t.Error(err)
					return
				}
			}
			long.Wait()
		}
	}()
	time.Sleep(200 * time.Millisecond)
	var waits []time.Duration
	b := put(t, short, 1, 2, 3, 4)
	for range 30 {
		began := time.Now()
		o, err := z.Run(Call{Inputs: []*Array{b}})
		if err != nil {
			t.Fatal(err)
		}
		values(t, o[0])
		waits = append(waits, time.Since(began))
	}
	close(quit)
	<-done
	limit := 100*time.Millisecond + 4*each
	var over []time.Duration
	for _, w := range waits {
		if w > limit {
			over = append(over, w)
		}
	}
	t.Logf("a long program takes %v; short ones waited %v", each, waits)
	// A hiccup of the machine makes one wait long, and perhaps the next; a queue
	// that the worker does not bound makes many.
	if len(over) > 2 {
		t.Errorf("short programs waited %v behind programs of %v: want at most %v", over, each, limit)
	}
}
