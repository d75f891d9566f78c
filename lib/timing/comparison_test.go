package timing

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A machine is how long the same work takes on it, one time after the other.
type machine func() float64

// machines are mostly a little slower than at best, with rare large delays, and
// their speed changes: not at all, steadily, at random, or between two levels.
func machines(r *rand.Rand) map[string]machine {
	noisy := func(speed func() float64) machine {
		return func() float64 {
			s := speed() * (1 + 0.01*r.ExpFloat64())
			if r.IntN(20) == 0 {
				s *= 1 + 0.5*r.Float64()
			}
			return s
		}
	}
	slower, walk, level := 1.0, 0.0, 1.0
	return map[string]machine{
		"steady":  noisy(func() float64 { return 1 }),
		"slower":  noisy(func() float64 { slower *= 1.002; return slower }),
		"walking": noisy(func() float64 { walk = 0.9*walk + 0.03*r.NormFloat64(); return math.Exp(walk) }),
		"levels": noisy(func() float64 {
			if r.IntN(40) == 0 {
				level = 2.2 - level
			}
			return level
		}),
	}
}

// TestCompareApart holds what is promised of measurements one after the other, of
// which the truth is known: equal ones are not told apart, and 5 % are found where
// the machine drifts by less. A jump between the two measurements cannot be seen.
func TestCompareApart(t *testing.T) {
	tests := []struct {
		machine     string
		samples     int
		same, found int // of 100, at least
	}{
		{"steady", 12, 95, 90}, {"steady", 30, 95, 90}, {"steady", 50, 95, 90},
		{"slower", 30, 95, 90}, {"slower", 50, 95, 0},
		{"walking", 30, 95, 0}, {"walking", 50, 95, 0},
	}
	for _, tt := range tests {
		run := machines(rand.New(rand.NewPCG(uint64(tt.samples), 1)))[tt.machine]
		of := func(cost float64) Measurement {
			m := Measurement{Loops: 1}
			for range tt.samples {
				m.Samples = append(m.Samples, 0.001*cost*run())
			}
			return m
		}
		same, found := 0, 0
		for range 100 {
			if Compare(of(1), of(1)).Verdict() == "~" {
				same++
			}
			if c := Compare(of(1), of(1.05)); c.Proven && c.Change > 0 {
				found++
			}
		}
		t.Logf("%s, %d samples: ~ in %d, found in %d of 100", tt.machine, tt.samples, same, found)
		if same < tt.same || found < tt.found {
			t.Errorf("%s, %d samples: got ~ for equal ones in %d and 5%% more found in %d of 100, want %d and %d", tt.machine, tt.samples, same, found, tt.same, tt.found)
		}
	}
}

// TestCompareInTurns holds the same of measurements in turns, on every machine:
// with looks in between, as Timer.Compare does.
func TestCompareInTurns(t *testing.T) {
	for _, name := range []string{"steady", "slower", "walking", "levels"} {
		r := rand.New(rand.NewPCG(3, 1))
		run := machines(r)[name]
		compare := func(cost float64) Comparison {
			a, b := Measurement{Turns: 1}, Measurement{Turns: 1}
			for looks := 0; ; {
				// as Timer.turns has it: in random order, then the other way round
				old, new := func() { a.Samples = append(a.Samples, run()) }, func() { b.Samples = append(b.Samples, cost*run()) }
				if r.IntN(2) == 0 {
					old, new = new, old
				}
				old()
				new()
				new()
				old()
				if a.N() == 2*firstLook<<looks {
					looks++
					if c := paired(a, b, looks); c.conclusive() || looks == mostLooks {
						return c
					}
				}
			}
		}
		same, found, covered, turns := 0, 0, 0, 0
		for range 200 {
			c, d := compare(1), compare(1.05)
			if !c.Proven {
				same++
			}
			if d.Proven && d.Change > 0 {
				found++
			}
			if c.Low <= 0 && c.High >= 0 {
				covered++
			}
			turns += c.Turns + d.Turns
		}
		t.Logf("%s, %d turns: ~ in %d, found in %d, truth in the interval in %d of 200", name, turns/400, same, found, covered)
		if same < 196 || found < 196 || covered < 194 {
			t.Errorf("%s: got ~ for equal ones in %d, 5%% more found in %d, the truth in the interval in %d of 200, want 196, 196 and 194", name, same, found, covered)
		}
	}
}

func TestComparison(t *testing.T) {
	base := of(1, 1.01, 1.02, 1.03, 1.04, 1.05)
	scaled := func(m Measurement, by float64) Measurement {
		other := m.copy()
		for i := range other.Samples {
			other.Samples[i] *= by
		}
		return other
	}
	turns := Measurement{Turns: 7}
	for i := range 40 {
		turns.Samples = append(turns.Samples, 1+0.001*float64(i*i%17))
	}
	jitter := turns.copy() // by up to 0.2 % either way, a little more or less each time
	for i := range jitter.Samples {
		jitter.Samples[i] *= 1 + 0.0002*float64(i/2-10) + 1e-6*float64(i)
	}
	few := Measurement{Turns: 7, Samples: turns.Samples[:14]}
	tests := []struct {
		name     string
		old, new Measurement
		want     string
	}{
		{"slower", base, scaled(base, 1.1), "+10.0 %   p=0.002 n=6+6 (Mann-Whitney U)"},
		{"a little faster", base, scaled(base, 0.92), "-8.0 %   p=0.002 n=6+6 (Mann-Whitney U)"},
		{"much faster", base, scaled(base, 1.0/35), "35× faster   p=0.002 n=6+6 (Mann-Whitney U)"},
		{"much slower", base, scaled(base, 20), "20× slower   p=0.002 n=6+6 (Mann-Whitney U)"},
		{"itself", base, base, "~   p=1.000 n=6+6 (Mann-Whitney U)"},
		{"less than it drifts", base, scaled(base, 1.055), "~   p=0.002 n=6+6 (Mann-Whitney U)\nwarning: the machine may have drifted by 6 % meanwhile: measure both alternately (Timer.Compare)"},
		{"too few", of(1, 1, 1), of(2, 2, 2), "~   p=0.047 n=3+3 (Mann-Whitney U)\nwarning: 3 and 3 samples can prove nothing; at least 5 of each are needed"},
		{"nothing", of(), of(), "~   p=1.000 n=0+0 (Mann-Whitney U)\nwarning: 0 and 0 samples can prove nothing; at least 5 of each are needed"},
		{"turns, slower", turns, scaled(jitter, 1.05), "+5.0 % (+4.9 % to +5.1 %)   p<0.001 n=20 turns (Wilcoxon signed rank)"},
		{"turns, equal", turns, jitter, "~ (-0.1 % to +0.1 %)   p=1.000 n=20 turns (Wilcoxon signed rank)"},
		{"turns, less than counts", turns, scaled(jitter, 1.008), "~ (+0.7 % to +0.9 %)   p=1.000 n=20 turns (Wilcoxon signed rank)"},
		{"turns, too few", few, scaled(few, 2), "~   p=0.011 n=7 turns (Wilcoxon signed rank)\nwarning: 7 turns can prove nothing; at least 8 are needed, of two blocks each"},
	}
	for _, tt := range tests {
		if got := Compare(tt.old, tt.new).String(); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
	other := base
	other.Device = true
	if c := Compare(base, other); len(c.Warnings) != 1 {
		t.Errorf("host against device: got %v, want a warning", c)
	}
}

// TestTimerCompare holds what does not depend on the machine: the two are
// measured in the same turns with blocks of one length, until the budget ends or
// the answer is conclusive, and one that panics is told.
func TestTimerCompare(t *testing.T) {
	timer := Timer{Budget: 10 * time.Second} // a conclusive answer ends it long before, unless others have the machine
	c := timer.Compare(t.Context(), Call("short", func() { spin(20 * time.Microsecond) }), Call("long", func() { spin(60 * time.Microsecond) }))
	if c.Old.Turns == 0 || c.Old.Turns != c.New.Turns || c.Old.Loops != c.New.Loops || c.Turns < firstLook {
		t.Errorf("got %d turns of %d and %d loops, want %d turns or more of the same", c.Turns, c.Old.Loops, c.New.Loops, firstLook)
	}
	if !c.Proven || c.Change < 1 {
		t.Errorf("three times the time: got %v", c)
	}
	timer.Runs = 30
	if c := timer.Compare(t.Context(), Call("a", func() {}), Call("b", func() {})); c.Turns > 15 {
		t.Errorf("30 runs: got %d turns, want 15 at most", c.Turns)
	}
	c = timer.Compare(t.Context(), Call("a", func() {}), Call("b", func() { panic("boom") }))
	if c.Proven || c.New.Err == nil || !strings.Contains(c.New.Err.Error(), "boom") {
		t.Errorf("one that panics: got %v, %v", c, c.New.Err)
	}
}
