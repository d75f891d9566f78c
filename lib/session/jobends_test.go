package session

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestJobExplains: steps that wait for numbers that are not finite are done behind the
// one that has them, with what it kept. A job that ends well neither does nor compiles
// them, and one of theirs that fails is not how the job ended.
func TestJobExplains(t *testing.T) {
	p := serve(t)
	s := p.open("explains")
	draft := func(n int, f func(in []*Node) []*Node) *Program {
		x, err := s.Draft(compile(t, s, Options{}, f, slices.Repeat([]shapes.Shape{f32(1)}, n)...).source, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	down := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Log(in[0])} }, f32(1))
	double := draft(1, func(in []*Node) []*Node { return []*Node{MulScalar(in[0], 2)} })
	sum := draft(2, func(in []*Node) []*Node { return []*Node{Add(in[0], in[1])} })
	up := draft(1, func(in []*Node) []*Node { return []*Node{AddScalar(in[0], 1)} })
	broken, err := s.Draft(double.source, Options{Flags: map[string]any{"xla_no_such_option": true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := double.Run(Call{}); err == nil || !strings.Contains(err.Error(), "is a draft") {
		t.Errorf("run of a draft: got %v", err)
	}
	step := JobStep{Program: down, Inputs: Named("x"), Names: []string{"x"}, Read: []wire.Read{{Name: "x"}}, Finite: true}
	other := JobStep{Program: up, Inputs: Named("y"), Names: []string{"y"}, Read: []wire.Read{{Name: "y"}}, Finite: true}
	j := Job{Name: "log", Turns: 100, Scratch: "log/", Steps: []JobStep{
		other, {Program: double, Inputs: Named("y"), Names: []string{"y"}, When: wire.NotFinite},
		step,
		{Program: double, Repeat: 3, Inputs: Named("x"), Names: []string{"log/twice"}, When: wire.NotFinite, Read: []wire.Read{{Name: "twice"}}},
		{Program: sum, Inputs: Named("x", "log/twice"), When: wire.NotFinite, Read: []wire.Read{{Name: "sum"}}},
		{Program: sum, Inputs: Named("x", "none"), When: wire.NotFinite, Read: []wire.Read{{Name: "none"}}},
		{Program: broken, Inputs: Named("x"), When: wire.NotFinite, Read: []wire.Read{{Name: "none"}}},
	}}
	for name, until := range map[string]*wire.Until{"to its end": nil, "until": {Read: "x", Below: 0.5}} {
		bindAll(t, s, map[string][]float32{"x": {3}, "y": {0}})
		j.Until = until
		if _, err := s.StartJob(j); err != nil {
			t.Fatal(err)
		}
		info, l := follow(t, s, "log")
		got := map[string]int{}
		for _, e := range l {
			got[e.Name]++
		}
		switch {
		case until != nil:
			if info.State != wire.JobDone || len(got) != 2 {
				t.Errorf("%s: got %+v with entries %v", name, info, got)
			}
			continue
		case info.State != wire.JobFailed || info.Error == nil || !strings.Contains(info.Error.Text, "x is NaN"):
			t.Errorf("%s: got %+v, want a job that failed as x is NaN", name, info)
		}
		if !maps.Equal(got, map[string]int{"x": 4, "y": 4, "twice": 3, "sum": 1}) {
			t.Fatalf("%s: got entries %v", name, got)
		}
		if v := l[len(l)-1].Values[0]; math.Abs(v+3*2.364) > 0.01 {
			t.Errorf("%s: the sum is %v, want three times the last finite value", name, v)
		}
		if got := look(t, s); !strings.Contains(got, "y[4]") || strings.Contains(got, "twice") {
			t.Errorf("%s: arrays afterwards: %s", name, got)
		}
	}
}

func TestJobEnds(t *testing.T) {
	p := serve(t)
	s := p.open("ends")
	bindAll(t, s, map[string][]float32{"x": {3}, "t0": {1}, "t1": {10}})
	// x becomes the logarithm of itself: 3, 1.1, 0.09, -2.4, NaN.
	down := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Log(in[0])} }, f32(1))
	step := JobStep{Program: down, Inputs: Named("x"), Names: []string{"x"}, Read: []wire.Read{{Name: "x"}}, Finite: true}
	j := Job{Name: "log", Turns: 100, Steps: []JobStep{step}}
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	info, l := follow(t, s, "log")
	if info.State != wire.JobFailed || info.Error == nil || !strings.Contains(info.Error.Text, "x is NaN") || len(l) != 4 || !math.IsNaN(l[3].Values[0]) {
		t.Errorf("got %+v with entries %v, want one that failed with NaN after 3", info, l)
	}
	a, err := s.Array("x")
	if err != nil {
		t.Fatal(err)
	}
	if v := values(t, a)[0]; math.Abs(float64(v)+2.364) > 0.01 {
		t.Errorf("x is %v, want the last finite value -2.364", v)
	}
	bindAll(t, s, map[string][]float32{"x": {3}})
	j.Until = &wire.Until{Read: "x", Below: 0.5}
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	if info, l = follow(t, s, "log"); info.State != wire.JobDone || !strings.Contains(info.Why, "below 0.5") || len(l) != 2 {
		t.Errorf("got %+v with %d entries, want one that is done after 2", info, len(l))
	}
	// Inputs that change with the repetition, and patience.
	add := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Add(in[0], in[1])} }, f32(1), f32(1))
	bindAll(t, s, map[string][]float32{"x": {0}})
	j = Job{Name: "add", Turns: 100, Until: &wire.Until{Read: "x", Patience: 3}, Steps: []JobStep{{Program: add, Repeat: 2,
		Inputs: []wire.Input{{Name: "x"}, {Each: []string{"t0", "t1"}}}, Names: []string{"x"}, Read: []wire.Read{{Name: "x"}}}}}
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	info, l = follow(t, s, "add")
	if info.State != wire.JobDone || len(l) != 8 || l[7].Values[0] != 44 {
		t.Errorf("got %+v with %d entries, want one that is done after 4 turns at 44", info, len(l))
	}
	// Steps at the end, however it comes: all turns, a larger value than enough, an error.
	for name, tt := range map[string]struct {
		x     float32
		turns int
		until *wire.Until
		step  *Program
		want  float32
	}{
		"all turns": {0, 3, nil, add, 31}, "above": {0, 100, &wire.Until{Read: "x", Below: 15, Maximize: true}, add, 21},
		"no larger": {7, 100, &wire.Until{Read: "x", Patience: 2, Maximize: true}, nil, 8}, "an error": {-1, 100, nil, down, 0},
	} {
		bindAll(t, s, map[string][]float32{"x": {tt.x}})
		work := JobStep{Program: tt.step, Inputs: Named("x"), Names: []string{"x"}, Read: []wire.Read{{Name: "x"}}, Finite: true}
		switch tt.step {
		case add:
			work.Inputs = Named("x", "t1")
		case nil:
			work.Program = compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{MulScalar(in[0], 1)} }, f32(1))
		}
		if _, err := s.StartJob(Job{Name: "end", Turns: tt.turns, Until: tt.until, Steps: []JobStep{work, {Program: add, Inputs: Named("x", "t0"), Names: []string{"x"}, When: wire.AtEnd}}}); err != nil {
			t.Fatal(err)
		}
		info, _ := follow(t, s, "end")
		if a, err = s.Array("x"); err != nil {
			t.Fatal(err)
		}
		if got := values(t, a)[0]; got != tt.want || (info.State == wire.JobFailed) != (tt.step == down) {
			t.Errorf("%s: got x %v, %+v, want %v", name, got, info, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		job  Job
		want string
	}{
		{"empty", Job{Name: "a"}, "got 0 steps"},
		{"no name", Job{Steps: []JobStep{step}}, "empty array name"},
		{"no program", Job{Name: "a", Steps: []JobStep{{}}}, "has no program"},
		{"inputs", Job{Name: "a", Steps: []JobStep{{Program: down}}}, "0 inputs"},
		{"names", Job{Name: "a", Steps: []JobStep{{Program: down, Inputs: Named("x"), Names: []string{"a", "b"}}}}, "names for 2 outputs"},
		{"output", Job{Name: "a", Steps: []JobStep{{Program: down, Inputs: Named("x"), Read: []wire.Read{{Output: 3}}}}}, "reads output 3"},
		{"why of nothing", Job{Name: "a", Steps: []JobStep{{Program: down, Inputs: Named("x")}, {Program: down, Inputs: Named("x"), When: wire.NotFinite}}}, "right after a step that is to be finite"},
		{"why that is to be finite", Job{Name: "a", Steps: []JobStep{step, {Program: down, Inputs: Named("x"), When: wire.NotFinite, Finite: true}}}, "wants to be finite"},
		{"until", Job{Name: "a", Steps: []JobStep{step}, Until: &wire.Until{Read: "loss"}}, "no step reads"},
		{"two ways", Job{Name: "a", Steps: []JobStep{{Program: down, Inputs: []wire.Input{{Name: "x", Each: []string{"x"}}}}}}, "want one name"},
	} {
		if _, err := s.StartJob(tt.job); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := s.StartJob(Job{Name: "lost", Steps: []JobStep{{Program: down, Inputs: Named("nothing")}}}); err != nil {
		t.Fatal(err)
	}
	if info, _ = follow(t, s, "lost"); info.State != wire.JobFailed || info.Error.Code != wire.NotFound {
		t.Errorf("a job whose array is missing: got %+v", info)
	}
}

// TestJobCopies: a job's copies are in no snapshot. Its steps make them again when it continues,
// after a pause, a rollback and a crash, from what the arrays are then.
func TestJobCopies(t *testing.T) {
	p := serve(t)
	s := p.open("copies")
	bindAll(t, s, map[string][]float32{"x": {0}, "j/next": {0}})
	pair := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Identity(in[0]), Identity(in[1])} }, f32(1), f32(1))
	add := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{AddScalar(in[0], 1), AddScalar(in[1], 1)} }, f32(1), f32(1))
	both := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{Concatenate(in, 0)} }, f32(1), f32(1))
	now, next := []string{"x", "j/copies/x"}, []string{"j/next", "j/copies/next"}
	j := Job{Name: "copies", Turns: 1_000_000, Scratch: "j/", Copies: "k/", Steps: []JobStep{
		{Program: pair, When: wire.AtStart, Inputs: Named("x", "j/next"), Names: []string{"j/copies/x", "j/copies/next"}},
		{Program: add, Inputs: Named(now...), Names: next},
		{Program: pair, Inputs: Named(next...), Names: now},
		{Program: both, Inputs: Named(now...), Read: []wire.Read{{Name: "x"}}},
		{Program: both, When: wire.AtEnd, Inputs: Named("x", "x"), Names: []string{"ended"}},
	}}
	refused := func(what, want string) {
		t.Helper()
		if _, err := s.StartJob(j); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}
	refused("copies that stay", `want names that begin with "j/"`)
	j.Copies = "j/copies/"
	j.Steps[1].Device = 7
	refused("too few devices", "it needs 8 devices, and the session has 1")
	j.Steps[1].Device = 0
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	// more waits for entries, of which each has x and its copy.
	more := func() {
		t.Helper()
		l, err := s.Jobs()
		if err != nil {
			t.Fatal(err)
		}
		from, enough := l[0].Entries, errors.New("enough")
		if err := s.FollowJob(t.Context(), "copies", from, func(_ wire.JobInfo, l []wire.JobEntry) error {
			for _, e := range l {
				if e.Values[0] != e.Values[1] {
					t.Fatalf("entry %d: got x %g and its copy %g, want the same", e.Number, e.Values[0], e.Values[1])
				}
			}
			if len(l) > 0 && l[len(l)-1].Number > from+10 {
				return enough
			}
			return nil
		}); err != enough {
			t.Fatal(err)
		}
	}
	pause := func() {
		t.Helper()
		if _, err := s.PauseJob("copies"); err != nil {
			t.Fatal(err)
		}
	}
	resume := func() {
		t.Helper()
		if _, err := s.ResumeJob("copies"); err != nil {
			t.Fatal(err)
		}
	}
	more()
	pause()
	if i, err := s.Snapshot("early"); err != nil || i.Arrays != 2 {
		t.Errorf("got snapshot %+v, %v, want x and next alone", i, err)
	}
	resume()
	for range 20 {
		more()
	}
	pause()
	if _, err := s.Rollback("early", ""); err != nil {
		t.Fatal(err)
	}
	a, err := s.Array("x")
	if err != nil {
		t.Fatal(err)
	}
	early := float64(values(t, a)[0])
	l, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	resume()
	if err := s.FollowJob(t.Context(), "copies", l[0].Entries, func(_ wire.JobInfo, l []wire.JobEntry) error {
		if len(l) == 0 {
			return nil
		}
		if x := l[0].Values; x[0] != x[1] || x[0] != early && x[0] != early+1 {
			t.Errorf("after a rollback to %g, got x %g and its copy %g, want one more", early, x[0], x[1])
		}
		return errors.New("seen")
	}); err == nil {
		t.Error("the job has ended")
	}
	p.kill()
	p.again()
	s = p.reopen("copies")
	if note := s.Welcome().Note; strings.Contains(note, "lost") {
		t.Errorf("told %q, want nothing of copies", note)
	}
	more()
	pause()
	p.kill()
	p.again()
	s = p.reopen("copies")
	if _, err := s.StopJob("copies"); err != nil { // while it waits
		t.Fatal(err)
	}
	if l, err := s.List(""); err != nil || len(l) != 2 || l[0].Name != "ended" {
		t.Errorf("got arrays %v, %v, want x and what the step at the end has made", l, err)
	}
}
