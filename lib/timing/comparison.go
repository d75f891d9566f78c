package timing

import (
	"fmt"
	"math"
	"strings"

	"gaiden/lib/timing/stats"
	"gaiden/lib/timing/units"
)

// Proof is the p-value from which on a difference counts. It is stricter than
// the usual 0.05, at which one of twenty pairs of equal programs would seem to
// differ: who compares often must not be told so.
const Proof = 0.01

// Least is the smallest difference that counts. Less than that, two copies of
// one program differ by where their code and data lie in memory (Mytkowicz and
// others, "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009).
const Least = 0.01

// A Comparison says whether one measurement differs from another.
type Comparison struct {
	Old, New Measurement

	// Change is 0.05 where New takes 5 % longer, -0.5 where it takes half the
	// time. It is worth something only if Proven.
	Change float64
	// Low and High bound the change, as sure as 1 - Proof; High is
	// infinite where little was measured, both are NaN where no interval belongs to the test.
	Low, High float64

	// P is the two-sided p-value of the test, see Test, of a difference beyond
	// [Least]. Proven says that it is below [Proof].
	P      float64
	Proven bool

	// Test names the test. Measurements of the same turns ([Timer.Compare],
	// [Timer.Times]) are compared turn by turn, by the Wilcoxon signed-rank test
	// of the logarithms of their ratios: the order in a turn is random, so that
	// nothing has to be assumed of how the machine's speed goes up and down.
	// Others are compared by the Mann-Whitney U test, and a difference counts
	// only if it is more than Drift; of what was between the two, nothing is
	// known.
	Test string
	// Turns is how many turns were compared, 0 for measurements apart.
	Turns int
	// Drift is how far the machine may have drifted from one measurement to the
	// other, by how far it did within each; for measurements apart.
	Drift float64

	Warnings []error
}

// Compare tests whether new differs from old. It is better to measure both in
// turns, see [Timer.Compare].
func Compare(old, new Measurement) Comparison {
	if old.Turns != 0 && old.Turns == new.Turns {
		return paired(old, new, 0)
	}
	c := Comparison{Old: old, New: new, Test: "Mann-Whitney U", P: stats.MannWhitney(old.Samples, new.Samples), Low: math.NaN(), High: math.NaN()}
	c.Change = new.Median()/old.Median() - 1
	c.Drift = max(drift(old.Samples), drift(new.Samples))
	if distance := math.Abs(math.Log1p(c.Change)) - math.Log1p(Least); c.P < Proof && distance > 0 && distance <= math.Log1p(c.Drift) {
		c.Warnings = append(c.Warnings, warningf("the machine may have drifted by %s meanwhile: measure both in turns (Timer.Compare)", percent(c.Drift)))
	} else {
		c.Proven = c.P < Proof && distance > 0
	}
	if least := 5; min(old.N(), new.N()) < least {
		c.Warnings = append(c.Warnings, warningf("%d and %d samples can prove nothing; at least %d of each are needed", old.N(), new.N(), least))
	}
	c.judge()
	return c
}

// paired compares measurements of the same turns. looks is how often their
// samples have been looked at while there were fewer, this time included: the
// first time may cost half of Proof, the next a quarter, and so on; 0 stands for
// a number of turns that was chosen without a look.
func paired(old, new Measurement, looks int) Comparison {
	c := Comparison{Old: old, New: new, Test: "Wilcoxon signed rank"}
	d := ratios(old.Samples, new.Samples)
	c.Turns = len(d)
	centre, low, high := stats.Centre(d, 1-math.Ldexp(Proof, -looks))
	c.Change, c.Low, c.High = math.Expm1(centre), math.Expm1(low), math.Expm1(high)
	beyond := make([]float64, len(d))
	for i, v := range d {
		beyond[i] = v - math.Copysign(math.Log1p(Least), centre)
	}
	c.P = 1
	if math.Abs(centre) > math.Log1p(Least) {
		c.P = min(1, math.Ldexp(stats.SignedRank(beyond), looks))
	}
	c.Proven = c.P < Proof
	if least := 8; c.Turns < least { // 2^-7 < Proof
		c.Warnings = append(c.Warnings, warningf("%s can prove nothing; at least %d are needed, of two blocks each", units.Plural(c.Turns, "turn"), least))
	}
	c.judge()
	return c
}

// ratios are the logarithms of new to old, one for each turn of two blocks, in
// which what gets slower steadily cancels out.
func ratios(old, new []float64) []float64 {
	var d []float64
	for i := 0; i+1 < min(len(old), len(new)); i += 2 {
		d = append(d, (math.Log(new[i]/old[i])+math.Log(new[i+1]/old[i+1]))/2)
	}
	return d
}

// drift is how far a machine may have drifted from one sample to the next, as
// a share: one and a half times what the medians of a few parts of a sample lie
// apart. Where it gets slower steadily, that is more than the sample's own drift.
func drift(samples []float64) float64 {
	n := len(samples)
	parts := min(n, max(3, min(n/6, 5)))
	var medians []float64
	for i := range parts {
		medians = append(medians, stats.Median(samples[i*n/parts:(i+1)*n/parts]))
	}
	if parts == 0 {
		return 0
	}
	return math.Pow(stats.Max(medians)/stats.Min(medians), 1.5) - 1
}

// judge adds the warnings that any comparison may have.
func (c *Comparison) judge() {
	if c.Old.Device != c.New.Device {
		c.Warnings = append(c.Warnings, warningf("one waited for the device and the other did not: these are not times of the same thing"))
	}
}

// firm says that more turns would say nothing of interest.
func (c Comparison) firm() bool { return c.Proven || c.Low > -3*Least && c.High < 3*Least }

// Verdict is "~" where no difference is proven, else the change: "+5.1%".
func (c Comparison) Verdict() string {
	if !c.Proven {
		return "~"
	}
	return change(c.Change)
}

func change(share float64) string {
	switch {
	case share > -0.1 && share < 10:
		return fmt.Sprintf("%+.1f%%", 100*share)
	case share < 0:
		return fmt.Sprintf("%.3g× faster", 1/(1+share))
	}
	return fmt.Sprintf("%.3g× slower", 1+share)
}

// Chance is P as it is printed: "=0.412", or "<0.001".
func (c Comparison) Chance() string {
	if c.P < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("=%.3f", c.P)
}

// Samples is how much was compared: "24 turns", or "31+12".
func (c Comparison) Samples() string {
	if c.Turns > 0 {
		return units.Plural(c.Turns, "turn")
	}
	return fmt.Sprintf("%d+%d", c.Old.N(), c.New.N())
}

// String is the verdict with what it stands on: "~ (-0.6% to +0.4%)   p=1.000
// n=24 turns (Wilcoxon signed rank)", and a line for each warning.
func (c Comparison) String() string {
	var b strings.Builder
	b.WriteString(c.Verdict())
	if !math.IsNaN(c.High) && !math.IsInf(c.High, 0) {
		fmt.Fprintf(&b, " (%s to %s)", change(c.Low), change(c.High))
	}
	fmt.Fprintf(&b, "   p%s n=%s (%s)", c.Chance(), c.Samples(), c.Test)
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "\nwarning: %v", w)
	}
	return b.String()
}
