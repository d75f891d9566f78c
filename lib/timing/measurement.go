package timing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/sysinfo"
	"gaiden/lib/timing/stats"
	"gaiden/lib/timing/units"
)

// A Measurement is the result of a [Timer] for one case. It is plain data, and can
// also be built from samples of other programs.
type Measurement struct {
	Name    string    `json:"name"`
	Samples []float64 `json:"samples"`    // seconds for one call, in the order measured
	Loops   int       `json:"loops"`      // calls in each sample
	First   float64   `json:"first_call"` // seconds of the first call, which is not a sample
	Device  bool      `json:"device"`     // the device was idle before and after each sample
	Partial bool      `json:"partial"`    // stopped before it was done

	// Turns is the same number for measurements that were made alternately, where
	// sample i of each belongs to the same turn; 0 for a single measurement.
	Turns uint64 `json:"turns,omitempty"`

	// Host is how long one call occupied the host, in seconds, when the device was
	// idle before it: the dispatch time. 0 means unknown.
	Host float64 `json:"host"`

	Time time.Time `json:"time"` // when it began

	// Err says why there are no samples, or no more of them.
	Err error `json:"-"`
	// Warnings are doubts that do not invalidate the samples.
	Warnings []error `json:"-"`
}

// A Warning is a doubt about a result. It is an exported string type, so that a
// notebook can serialise the result and keep it for the next cell, which an error of
// errors.New prevents.
type Warning string

// Error returns the text.
func (w Warning) Error() string { return string(w) }

// warningf makes a Warning.
func warningf(format string, args ...any) error { return Warning(fmt.Sprintf(format, args...)) }

// N returns the number of samples.
func (m Measurement) N() int { return len(m.Samples) }

// Median returns the median of the samples in seconds, NaN if there are none.
func (m Measurement) Median() float64 { return stats.Median(m.Samples) }

// Best returns the shortest sample in seconds, NaN if there are none.
func (m Measurement) Best() float64 { return stats.Min(m.Samples) }

// DispatchBound reports whether the host, not the device, limited the speed:
// dispatching a call takes about as long as the call. The time on the device is then
// shorter than the median, and unknown. It is false for calls of a millisecond or
// more: a dispatch never takes that long, so such a call waits for its own result.
func (m Measurement) DispatchBound() bool {
	return m.Device && m.Median() < 1e-3 && m.Host > dispatchShare*m.Best()
}

const dispatchShare = 0.8

// alone takes in how long a block kept the host, if it was a single call: in
// longer ones the host may have waited until the device took more.
func (m *Measurement) alone(host float64) {
	if m.Loops == 1 && (m.Host == 0 || host < m.Host) {
		m.Host = host
	}
}

// copy is the measurement as it stands.
func (m *Measurement) copy() Measurement {
	c := *m
	c.Samples, c.Warnings = slices.Clone(m.Samples), slices.Clone(m.Warnings)
	return c
}

// Spread returns half the interquartile range as a share of the median.
func (m Measurement) Spread() float64 { return stats.Spread(m.Samples) }

// String returns the measurement on one line, then its error and each warning on
// lines of their own.
func (m Measurement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   ", m.Name)
	if m.N() == 0 {
		b.WriteString("not measured")
	} else {
		fmt.Fprintf(&b, "%s ± %s   median of %s of %s", units.Seconds(m.Median()), percent(m.Spread()), units.Plural(m.N(), "block"), units.Count(m.Loops))
		if m.First > 0 {
			fmt.Fprintf(&b, "   first call %s, not counted", units.Seconds(m.First))
		}
	}
	if m.Partial {
		b.WriteString("   stopped: partial result")
	}
	if m.Err != nil {
		fmt.Fprintf(&b, "\nerror: %v", m.Err)
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(&b, "\nwarning: %v", w)
	}
	return b.String()
}

// IPython returns the result line of IPython's %timeit: "1.32 ms ± 12.3 µs per loop
// (mean ± std. dev. of 7 runs, 1,000 loops each)".
func (m Measurement) IPython() string { return m.IPythonDigits(3) }

// IPythonDigits is IPython with a number of significant digits, like -p of %timeit.
func (m Measurement) IPythonDigits(digits int) string {
	if m.N() == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%s ± %s per loop (mean ± std. dev. of %s, %s each)", ipythonTime(stats.Mean(m.Samples), digits),
		ipythonTime(stats.StdDev(m.Samples), digits), units.Plural(m.N(), "run"), units.Plural(m.Loops, "loop"))
}

// ipythonTime is IPython's _format_time.
func ipythonTime(s float64, digits int) string {
	if s >= 60 {
		var parts []string
		left := s
		for _, u := range []struct {
			suffix string
			length float64
		}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}} {
			if value := math.Trunc(left / u.length); value > 0 {
				parts = append(parts, strconv.Itoa(int(value))+u.suffix)
				left = math.Mod(left, u.length)
			}
			if left < 1 {
				break
			}
		}
		return strings.Join(parts, " ")
	}
	order := 3
	if s > 0 {
		order = min(int(-math.Floor(math.Floor(math.Log10(s))/3)), 3)
	}
	scaled := s * math.Pow(1000, float64(order))
	// %g would write 1000 as 1e+03, which is what IPython shows as well.
	return fmt.Sprintf("%.*g %s", max(digits, 1), scaled, []string{"s", "ms", "µs", "ns"}[order])
}

// judge writes the warnings; clock is the seconds that reading it costs, of which
// a share is allowed.
func (m *Measurement) judge(clock, allowed float64) {
	if m.Partial && m.Err == nil && m.N() == 0 {
		m.Err = errStopped
	}
	if m.N() == 0 {
		return
	}
	warn := func(format string, args ...any) { m.Warnings = append(m.Warnings, warningf(format, args...)) }
	if share := clock / (m.Median() * float64(m.Loops)); share > 1.5*allowed {
		warn("reading the clock is %s of each sample; raise Timer.Loops (-n) above %s; if it was found, the machine was busy then", units.Percent(share), units.Count(m.Loops))
	}
	if m.DispatchBound() {
		warn("dispatch-bound: a call keeps the host for %s, so the device may have waited; put more work into one program, or ask for no result in the loop", units.Seconds(m.Host))
	}
	if m.N() < leastRuns {
		warn("%s cannot show how far they spread; raise Timer.Runs (-r)", units.Plural(m.N(), "sample"))
		return
	}
	// The limits are those of torch.utils.benchmark: quartiles a tenth and a
	// quarter of the median apart.
	switch spread := m.Spread(); {
	case spread > 0.125:
		warn("the samples spread %s: do not trust this figure; the machine is busy, or the work differs from call to call", percent(spread))
	case spread > 0.05:
		warn("the samples spread %s; raise Timer.Budget or Timer.Runs (-r), or quiet the machine, for a firmer answer", percent(spread))
	}
	if slowest := stats.Max(m.Samples) / m.Best(); slowest > 4 {
		warn("the slowest sample took %.2f times as long as the fastest; some calls may do other work, or find it cached", slowest)
	}
	if drift, proven := m.drift(); proven {
		warn("the second half took %+.0f %% of time against the first: the machine, or the work, changes while it is measured", 100*drift)
	}
}

// drift compares the two halves of the samples.
func (m *Measurement) drift() (change float64, proven bool) {
	half := m.N() / 2
	early, late := m.Samples[:half], m.Samples[half:]
	change = stats.Median(late)/stats.Median(early) - 1
	return change, half >= 5 && math.Abs(change) > 0.05 && stats.MannWhitney(early, late) < 0.001
}

// A Record is one line of the benchmarks' JSON files.
type Record struct {
	Bench    string  `json:"bench"`
	Case     string  `json:"case"`
	Subject  string  `json:"subject"` // "gaiden", a variant of it, or a peer
	Unit     string  `json:"unit"`
	Median   float64 `json:"median"`
	Low      float64 `json:"low"`  // first quartile
	High     float64 `json:"high"` // third quartile
	N        int     `json:"n"`
	Machine  string  `json:"machine"`
	Versions string  `json:"versions"`
	Date     string  `json:"date"` // RFC 3339
}

// Record returns the measurement as a record, in µs. It fails if there are no
// samples, because JSON has no NaN.
func (m Measurement) Record(bench, name, subject string, info sysinfo.Info) (Record, error) {
	if m.N() == 0 {
		return Record{}, fmt.Errorf("timing: %s: no samples to record: %w", m.Name, errors.Join(m.Err))
	}
	machine := info.Machine.String()
	for _, g := range info.GPUs {
		machine += "; " + g.String()
	}
	return Record{
		Bench: bench, Case: name, Subject: subject, Unit: "µs",
		Median: 1e6 * m.Median(), Low: 1e6 * stats.Quantile(m.Samples, 0.25), High: 1e6 * stats.Quantile(m.Samples, 0.75), N: m.N(),
		Machine: machine, Versions: info.Versions.String(), Date: m.Time.Format(time.RFC3339),
	}, nil
}

func percent(share float64) string {
	switch {
	case math.IsNaN(share):
		return "?%"
	case share < 0.0095:
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
