package timing

import (
	"fmt"
	"math"
	"strings"

	"gaiden/lib/timing/stats"
)

// Proof is the p-value from which on a difference counts. It is stricter than
// the usual 0.05, at which one of twenty pairs of equal programs would seem to
// differ: who compares often must not be told so.
const Proof = 0.01

// A Comparison says whether one measurement differs from another.
type Comparison struct {
	Old, New Measurement

	// Change is that of the medians: 0.05 is 5 % slower, -0.5 is half the
	// time. It is worth something only if Proven.
	Change float64

	// P is the two-sided p-value of the Mann-Whitney U test on the samples,
	// and Proven says that it is below [Proof].
	P      float64
	Proven bool

	Warnings []error
}

// Compare tests whether new differs from old.
func Compare(old, new Measurement) Comparison {
	c := Comparison{Old: old, New: new, P: stats.MannWhitney(old.Samples, new.Samples)}
	c.Change = new.Median()/old.Median() - 1
	c.Proven = c.P < Proof && !math.IsNaN(c.Change)
	if least := 5; min(old.N(), new.N()) < least {
		c.Warnings = append(c.Warnings, fmt.Errorf("%d and %d samples can prove nothing; at least %d of each are needed", old.N(), new.N(), least))
	}
	if old.Device != new.Device {
		c.Warnings = append(c.Warnings, fmt.Errorf("one waited for the device and the other did not: these are not times of the same thing"))
	}
	return c
}

// Verdict is "~" where no difference is proven, else the change: "+5.1%".
func (c Comparison) Verdict() string {
	if !c.Proven {
		return "~"
	}
	if c.Change > -0.1 && c.Change < 10 {
		return fmt.Sprintf("%+.1f%%", 100*c.Change)
	}
	if c.Change < 0 {
		return fmt.Sprintf("%.3g× faster", 1/(1+c.Change))
	}
	return fmt.Sprintf("%.3g× slower", 1+c.Change)
}

// Chance is P as it is printed: "=0.412", or "<0.001".
func (c Comparison) Chance() string {
	if c.P < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("=%.3f", c.P)
}

// String is the verdict with what it stands on: "~   p=0.412 n=31+12
// (Mann-Whitney U)", and a line for each warning.
func (c Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   p%s n=%d+%d (Mann-Whitney U)", c.Verdict(), c.Chance(), c.Old.N(), c.New.N())
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "\nwarning: %v", w)
	}
	return b.String()
}
