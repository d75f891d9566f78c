package profile

import (
	"context"
	"math"
	"os"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// needed skips a test that asserts times where nobody has asked for them.
func needed(t *testing.T) {
	t.Helper()
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
}

// counted is a program that does nothing but count: its device time is that of
// a trip times the trips.
func counted(t *testing.T, s *session.Session, trips int32) func() {
	t.Helper()
	p, err := build1("count", hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
		x := must(f.Parameter("x", shapes.Make(dtypes.Float32, 64), nil))
		closure := func(build func(c compute.Function, i, x compute.Value) []compute.Value) compute.Function {
			c, err := f.Closure()
			check(err)
			i := must(c.Parameter("i", shapes.Make(dtypes.Int32), nil))
			v := must(c.Parameter("v", shapes.Make(dtypes.Float32, 64), nil))
			check(c.Return(build(c, i, v), nil))
			return c
		}
		cond := closure(func(c compute.Function, i, _ compute.Value) []compute.Value {
			return []compute.Value{must(c.LessThan(i, must(c.Constant([]int32{trips}))))}
		})
		body := closure(func(c compute.Function, i, v compute.Value) []compute.Value {
			return []compute.Value{must(c.Add(i, must(c.Constant([]int32{1})))), must(c.Cos(v))}
		})
		out, err := f.While(cond, body, must(f.Constant([]int32{0})), x)
		check(err)
		return out[1]
	})
	if err != nil {
		t.Fatal(err)
	}
	program, err := s.Compile(p, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Put(make([]float32, 64), shapes.Make(dtypes.Float32, 64), 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		out, err := program.Run(session.Call{Inputs: []*session.Array{x}})
		check(err)
		x = out[0] // each run needs the one before
	}
}

// TestKnownDeviceTime holds that a program of known device time is measured
// within 3 %: by what a trip takes in a program of many, a program of some takes
// as many times that. Compiling is in neither. Blocks of both do as many trips and
// are compared turn by turn, until that tells the difference within 3 %: on a
// machine whose speed goes up and down the two best blocks were 5 % apart.
func TestKnownDeviceTime(t *testing.T) {
	needed(t)
	s := open(t)
	const trips, times = 50_000, 2
	reference, run := counted(t, s, times*trips), counted(t, s, trips)
	cases := []timing.Case{timing.Call("many", reference), timing.Call("some", func() {
		for range times {
			run()
		}
	})}
	timer := timing.Timer{Sync: waiting(s), Loops: 1, Runs: 40}
	many, some := timing.Measurement{Turns: 1}, timing.Measurement{Turns: 1}
	var c timing.Comparison
	for c.Turns < 300 && !(c.Turns > 0 && c.High-c.Low < 0.03) {
		found := timer.Times(t.Context(), cases...)
		many.Samples, some.Samples = append(many.Samples, found[0].Samples...), append(some.Samples, found[1].Samples...)
		c = timing.Compare(many, some)
	}
	t.Logf("%d trips: %.5g s, beside as many of %d trips: %+.1f%% (%+.1f%% to %+.1f%%) in %d turns", trips, some.Median()/times, times*trips,
		100*c.Change, 100*c.Low, 100*c.High, c.Turns)
	if !(math.Abs(c.Change) <= 0.03 && c.High-c.Low < 0.06) {
		t.Errorf("%d trips: got %+.1f%% (%+.1f%% to %+.1f%%) beside as many of %d trips, want it within 3%% and known as well", trips,
			100*c.Change, 100*c.Low, 100*c.High, times*trips)
	}
}

// TestComparePrograms holds that two equal programs compare as equal in 95 of
// 100 tries, and TestCompareMore that one which does 5 % more is found in 90.
func TestComparePrograms(t *testing.T) {
	needed(t)
	if same, _ := compared(t, 0); same < 95 {
		t.Errorf("two equal programs: got ~ in %d of 100 tries, want 95", same)
	}
}

func TestCompareMore(t *testing.T) {
	needed(t)
	if _, found := compared(t, 0.05); found < 90 {
		t.Errorf("one of two does 5%% more: found in %d of 100 tries, want 90", found)
	}
}

// compared is in how many of 100 comparisons no difference is proven, and in how
// many the second program, which does more, is proven to be slower.
func compared(t *testing.T, more float64) (same, slower int) {
	s := open(t)
	const trips = 2_000
	one, other := timing.Call("one", counted(t, s, trips)), timing.Call("other", counted(t, s, trips+int32(more*trips)))
	timer := timing.Timer{Sync: waiting(s), Budget: 1500 * time.Millisecond}
	turns := 0
	for range 100 {
		c := timer.Compare(t.Context(), one, other)
		turns += c.Turns
		switch {
		case !c.Proven:
			same++
		case c.Change > 0:
			slower++
		}
	}
	t.Logf("%.0f%% more: ~ in %d, slower in %d of 100, %d turns each", 100*more, same, slower, turns/100)
	return same, slower
}

// TestPhasesAddUp holds that the phases, with what they take more in a step than
// alone, are the step within 5 %. It looks three times where the samples of a
// phase, or of the step, show that the machine's speed goes up and down; where they
// do not, the first look counts.
func TestPhasesAddUp(t *testing.T) {
	needed(t)
	s := open(t)
	for _, net := range []models.Net{models.SeedCNN(), models.MLP(1000)} {
		t.Run(net.Name, func(t *testing.T) {
			n, err := fit.Attach(s, net.Name, net, fit.Config{})
			if err != nil {
				t.Fatal(err)
			}
			set, err := n.Upload("train", noise(3200, net.Input))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				p, err := Measure(context.Background(), n, set, Options{Batch: 64, Shallow: true, NoErrors: true, NoEpoch: true, Budget: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				step := p.Chain.Seconds()
				left, spread := p.Left()/step, p.Chain.Time.Spread()
				t.Logf("phases %.4g s, rest %.4g s, step %.4g s: %+.1f%% left", p.Sum(), p.Rest(), step, 100*left)
				for _, l := range p.Phases {
					t.Logf("  %s: alone %.4g s, in its place %.4g s, spread %.0f%%", l.Phase, l.Seconds(), l.InStep, 100*l.Time.Spread())
					if l.Seconds() > step/20 {
						spread = max(spread, l.Time.Spread())
					}
				}
				switch {
				case math.Abs(left) <= 0.05:
					return
				case math.IsNaN(left) || !(spread > 0.05):
					t.Fatalf("the phases take %g s, their rest %g s, the step %g s: %.1f%% left, want no more than 5%% either way", p.Sum(), p.Rest(), step, 100*left)
				}
			}
			t.Skip("asserts times, and this machine is busy: in none of three measurements were all phases steady within 5%, nor did they add up (figures above); run it when nothing else runs")
		})
	}
}

func TestAllowance(t *testing.T) {
	for _, tt := range []struct {
		level Level
		lines int
		want  time.Duration
	}{{Operation, 5, time.Second}, {Operation, 20, time.Second}, {Operation, 100, 200 * time.Millisecond}, {Layer, 100, time.Second}, {Operation, 0, time.Second}} {
		tasks := make([]task, tt.lines)
		for i := range tasks {
			tasks[i].line = &Line{Level: tt.level}
		}
		if got := allowance(tasks, time.Second); got != tt.want {
			t.Errorf("%d lines of level %v: got %v each, want %v", tt.lines, tt.level, got, tt.want)
		}
	}
}
