package timing

import (
	"fmt"
	"math"
	"strings"

	"gaiden/lib/timing/stats"
	"gaiden/lib/timing/units"
)

// Proof is the significance level: a difference with a p-value below it is proven. It
// is stricter than the usual 0.05, at which one in twenty pairs of equal programs
// would appear to differ.
const Proof = 0.01

// Least is the smallest relative difference that is reported. Below it, two copies of
// the same program may differ because of their memory layout (Mytkowicz and others,
// "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009).
const Least = 0.01

// A Comparison says whether one measurement differs from another.
type Comparison struct {
	Old, New Measurement

	// Change is the relative difference of the times: 0.05 if New takes 5 % longer,
	// -0.5 if it takes half the time. It is meaningful only if Proven.
	Change float64
	// Low and High are the confidence interval of the change, with confidence 1 -
	// Proof. High is infinite if there are too few samples; both are NaN if the test
	// has no interval.
	Low, High float64

	// P is the two-sided p-value of the test, see Test, for a difference larger than
	// [Least]. Proven is true if it is below [Proof].
	P      float64
	Proven bool

	// Test is the name of the test. Measurements of the same turns ([Timer.Compare],
	// [Timer.Times]) are compared turn by turn with the Wilcoxon signed-rank test of
	// the logarithms of their ratios. The order within a turn is random, so the test
	// assumes nothing about changes of the machine's speed. Other measurements are
	// compared with the Mann-Whitney U test; a difference then counts only if it is
	// larger than Drift, because the machine may have changed between them.
	Test string
	// Turns is the number of turns that were compared, 0 for separate measurements.
	Turns int
	// Drift is an upper estimate of the relative drift of the machine between two
	// separate measurements, derived from the drift within each.
	Drift float64

	Warnings []error
}

// Compare tests whether new differs from old. Measuring both alternately is more
// reliable: see [Timer.Compare].
func Compare(old, new Measurement) Comparison {
	if old.Turns != 0 && old.Turns == new.Turns {
		return paired(old, new, 0)
	}
	c := Comparison{Old: old, New: new, Test: "Mann-Whitney U", P: stats.MannWhitney(old.Samples, new.Samples), Low: math.NaN(), High: math.NaN()}
	c.Change = new.Median()/old.Median() - 1
	c.Drift = max(drift(old.Samples), drift(new.Samples))
	if distance := math.Abs(math.Log1p(c.Change)) - math.Log1p(Least); c.P < Proof && distance > 0 && distance <= math.Log1p(c.Drift) {
		c.Warnings = append(c.Warnings, warningf("the machine may have drifted by %s meanwhile: measure both alternately (Timer.Compare)", percent(c.Drift)))
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

// conclusive reports that the result is conclusive: more turns would not change it in a
// relevant way.
func (c Comparison) conclusive() bool { return c.Proven || c.Low > -3*Least && c.High < 3*Least }

// Verdict returns the change, such as "+5.1%", or "~" if no difference is proven.
func (c Comparison) Verdict() string {
	if !c.Proven {
		return "~"
	}
	return change(c.Change)
}

func change(share float64) string {
	switch {
	case share > -0.1 && share < 10:
		return fmt.Sprintf("%+.1f %%", 100*share)
	case share < 0:
		return fmt.Sprintf("%.3g× faster", 1/(1+share))
	}
	return fmt.Sprintf("%.3g× slower", 1+share)
}

// Chance returns P as printed: "=0.412", or "<0.001".
func (c Comparison) Chance() string {
	if c.P < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("=%.3f", c.P)
}

// Samples returns how much was compared: "24 turns", or "31+12" samples.
func (c Comparison) Samples() string {
	if c.Turns > 0 {
		return units.Plural(c.Turns, "turn")
	}
	return fmt.Sprintf("%d+%d", c.Old.N(), c.New.N())
}

// String returns the verdict with its evidence: "~ (-0.6% to +0.4%) p=1.000 n=24
// turns (Wilcoxon signed rank)", and a line for each warning.
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
